"""The requests of `zab client`, and the texts of their outcomes."""

import pytest

from zab_chaos.harness.client.session import Done, Failed, Outcome, Unknown
from zab_chaos.harness.errors import BadInput, Exit
from zab_chaos.harness.live.requests import VERBS, exit_code, outcome_json, outcome_text, parse_request, split_line
from zab_chaos.node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set


@pytest.mark.parametrize(
    ("line", "request_said"),
    [
        ("create /a hello", Create("/a", b"hello", False)),
        ("create /a", Create("/a", b"", False)),
        ("create /a/n- 'two words' --sequential", Create("/a/n-", b"two words", True)),
        ("get /a", Get("/a")),
        ("set /a x --version 3", Set("/a", b"x", 3)),
        ("set --version=0 /a x", Set("/a", b"x", 0)),
        ("set /a x", Set("/a", b"x", ANY)),
        ("delete /a --version 1", Delete("/a", 1)),
        ("check /a", Check("/a", ANY)),
        ("exists /a", Exists("/a")),
        ("ls /", Children("/")),
        ("multi 'create /a/b 1' 'check /a --version 3'", Multi([Create("/a/b", b"1", False), Check("/a", 3)])),
    ],
)
def test_a_line_is_parsed_to_a_request(line: str, request_said: Request) -> None:
    assert parse_request(split_line(line)) == request_said


def test_the_example_of_every_verb_is_a_valid_line() -> None:
    for name, word in VERBS.items():
        said = split_line(word.example.replace("[", "").replace("]", "").replace("N", "3"))
        assert said[0] == name
        parse_request(said)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sett /a x", "Did you mean set"),
        ("", "Known: check, create"),
        ("set /a", "set: the following arguments are required: data; for example: set /a other"),
        ("get /a /b", "get: unrecognized arguments: /b; for example: get /a"),
        ("set /a x --version two", "--version: 'two' is not a whole number of at most 18 digits; for example"),
        (
            "set /a x --version 9223372036854775808",
            "--version: '9223372036854775808' is not a whole number of at most 18",
        ),
        ("delete /a --vers 2", "unrecognized arguments"),
        ("multi", "multi: the following arguments are required: steps"),
    ],
)
def test_a_mistake_is_reported_with_an_example(line: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_request(split_line(line))


def test_all_mistakes_in_a_multi_are_reported_at_once() -> None:
    with pytest.raises(BadInput) as error:
        parse_request(["multi", "get /a", "set /b", "create /c 1", "delete '/d"])
    told = str(error.value)
    assert "step 1: get /a: a multi holds writes only" in told
    assert "step 2: set: the following arguments are required: data" in told
    assert "step 4: delete '/d: No closing quotation" in told
    assert "step 3" not in told


def test_steps_without_quotes_are_one_mistake() -> None:
    with pytest.raises(BadInput) as error:
        parse_request(split_line("multi 'delete /a' create /b 'two words'"))
    assert str(error.value).splitlines() == [
        "create /b: write each step of a multi as one argument, in quotes, such as: multi 'create /a/b 1' 'set /a y'",
        "step 4: there is no request 'two'. Known: check, create, delete, exists, get, ls, multi, set.",
    ]


ANSWERS: list[tuple[Outcome, str, int]] = [
    (Done(zxid=(2, 7), version=0, path="/a"), "/a version 0, zxid 2:7", Exit.PASS),
    (Done(zxid=(2, 8)), "zxid 2:8", Exit.PASS),
    (Done(zxid=(2, 8), version=3, value=b"h\xc3\xa9\xff"), "hé\\xff\nversion 3, zxid 2:8", Exit.PASS),
    (Done(zxid=(2, 8), version=3, children=["b", "c"]), "b\nc", Exit.PASS),
    (Done(zxid=(2, 8), steps=[("/a", 1), ("/b", None)]), "/a version 1\n/b\nzxid 2:8", Exit.PASS),
    (Failed("no node", "there is no znode /a"), "failed, no node: there is no znode /a", Exit.VIOLATION),
    (Unknown("the node went away"), "it is not known whether it took effect: the node went away", Exit.UNKNOWN),
]


@pytest.mark.parametrize(("outcome", "words", "status"), ANSWERS)
def test_an_answer_in_words_and_as_an_exit_code(outcome: Outcome, words: str, status: int) -> None:
    assert outcome_text(outcome) == words
    assert exit_code(outcome) == status


def test_an_answer_for_programs() -> None:
    assert outcome_json(Done(zxid=(2, 8), version=3, value=b"h\xff")) == {
        "outcome": "ok", "zxid": (2, 8), "version": 3, "value": "h\\xff",
    }  # fmt: skip
    assert outcome_json(Failed("no node", "gone")) == {"outcome": "failed", "error": "no node", "words": "gone"}
    assert outcome_json(Unknown("why")) == {"outcome": "unknown", "why": "why"}
