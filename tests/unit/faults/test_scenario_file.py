"""Reading scenario files: all mistakes are reported at once, each with its line; valid values are typed."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zab_chaos.faults.initial_and_final import LEVELS, PROPERTIES
from zab_chaos.faults.registry import KINDS, describe_kinds
from zab_chaos.faults.scenario import Expect, InitialDisk, Operation, ScenarioError, load, parse
from zab_chaos.model import isolation
from zab_chaos.model.oracle.properties import ALL
from zab_chaos.node.crash_points import POINTS

# A busy machine is slow, not wrong.
unhurried = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])

SHIPPED = sorted((Path(__file__).parents[3] / "scenarios").glob("*.toml"))

GOOD = """
[scenario]
name = "good"
about = '''
[fault]
not = "a table"
'''
nodes = 5
seed = 7

[workload]
mix = { set = 3, get = 1 }

[timing]
timeout_ms = 900

[[fault]]
at = 2
do = "partition"
shape = "pairs"
pairs = [  # a comment with ] and "
  [1, 2],
  [2, 1],
]
for = 3

[[fault]]
at = 1
do = "crash"
target = ["leader", "node-2"]
"""


def mistakes_of(text: str, nodes: int | None = None) -> list[tuple[int, str]]:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "some.toml", nodes)
    return [(mistake.line, str(mistake)) for mistake in caught.value.mistakes]


def with_faults(*faults: str, head: str = "") -> str:
    text = f'[scenario]\nname = "x"\nabout = "y"\n{head}\n'
    return text + "".join(f"[[fault]]\n{fault}\n" for fault in faults)


def test_a_good_file_comes_out_typed_and_sorted_by_time() -> None:
    scenario = parse(GOOD)
    assert (scenario.nodes, scenario.seed, scenario.timing.timeout_ms) == (5, 7, 900)
    assert scenario.workload.mix == {"set": 3.0, "get": 1.0}
    assert [step.do for step in scenario.faults] == ["crash", "partition"]
    assert scenario.faults[0].target == ("leader", "node-2")
    assert scenario.faults[1].params["pairs"] == ((1, 2), (2, 1))
    assert scenario.faults[1].lasts == 3.0
    assert scenario.expect == Expect()
    assert scenario.source == GOOD


def test_all_mistakes_are_reported_at_once_with_their_lines() -> None:
    text = GOOD.replace("seed = 7", "sead = 7").replace('"crash"', '"krash"').replace("= 900", "= true")
    text = text.replace("for = 3", 'for = "long"').replace("set = 3", "sett = 3")
    lines = text.splitlines()
    found = mistakes_of(text)
    assert [lines[line - 1].split(" = ")[0] for line, _ in found] == ["sead", "mix", "timeout_ms", "for", "do"]
    told = "\n".join(words for _, words in found)
    for near in ("seed", "set", "crash"):
        assert f"Did you mean {near}?" in told


def test_what_any_fault_may_have_is_checked_if_its_kind_is_unknown() -> None:
    found = mistakes_of('[scenario]\nname = "x"\n[[fault]]\nat = -1\ndo = "krash"\nfor = 0\nawaits = "Nobody"\n')
    assert [line for line, _ in found] == [4, 5, 6, 7]
    head = '[scenario]\nname = "x"\n[[fault]]\nat = 1\ndo = "krash"\n'
    assert [line for line, _ in mistakes_of(head + 'target = "leeder"\n')] == [5, 6]
    assert [line for line, _ in mistakes_of(head + 'target = "leader"\n')] == [5]


def test_a_key_that_an_operation_can_not_use_is_a_mistake() -> None:
    """It would be ignored, and the scenario would not do what it seems to do."""
    operations = (
        'at = 1\ndo = "get"\nversion = 3',
        'at = 2\ndo = "check"\nvalue = "x"',
        'at = 3\ndo = "replace"\nversion = 0',
    )
    text = '[scenario]\nname = "x"\n' + "".join(f"[[operation]]\n{operation}\n" for operation in operations)
    get, check = mistakes_of(text)
    assert (get[0], check[0]) == (6, 10)
    assert "get has no version" in get[1]
    assert "replace" in get[1]
    assert "check has no value" in check[1]


@pytest.mark.parametrize("name", ['"My Scenario"', '"../up"', '"a//b"', '""', "3", f'"{"x" * 101}"'])
def test_an_invalid_name_is_refused_with_the_allowed_form(name: str) -> None:
    ((line, words),) = mistakes_of(f"[scenario]\nname = {name}\n")
    assert line == 2
    assert words.endswith("Allowed: 1 to 100 small letters, digits, - and /, but not latest.")


def test_a_key_in_the_wrong_table_gets_a_hint() -> None:
    text = 'nodes = 3\n[scenario]\nname = "x"\nrate = 5\n[[step]]\nat = 1\n[[step]]\nat = 2\n'
    found = dict(mistakes_of(text))
    assert sorted(found) == [1, 4, 5]
    assert found[1].endswith("nodes is a key of [scenario].")
    assert found[4].endswith("rate is a key of [workload].")
    assert "'step' is no table" in found[5]


def test_all_wrong_numbers_of_a_workload_are_reported() -> None:
    wrong = {"clients": 0, "rate": 0, "keys": 0, "payload_bytes": -1, "max_outstanding": 0, "burst": 0, "moves": -1,
             "visits": -1, "stalls": -1, "timeout": 0}  # fmt: skip
    lines = "\n".join(f"{key} = {value}" for key, value in wrong.items())
    found = mistakes_of(f'[scenario]\nname = "x"\n[workload]\n{lines}\n')
    assert [line for line, _ in found] == list(range(4, 4 + len(wrong)))
    assert all("is out of range" in words for _, words in found)


def test_all_mistakes_in_a_table_of_weights_are_reported() -> None:
    mix = "{ sett = 1, get = -1, set = 1, cas = 'x', creat = 1 }"
    (told,) = dict(mistakes_of(f'[scenario]\nname = "x"\n[workload]\nmix = {mix}\n')).values()
    for words in (
        "'sett' is not an operation",
        "'creat' is not an operation",
        "get: -1 is out of range",
        "cas: 'x' is not a number",
    ):
        assert words in told
    assert told.endswith("Did you mean set?")


def test_a_table_of_crash_points_may_consist_of_zeros() -> None:
    """The points that are not in it have weight 1."""
    nemesis = '[scenario]\nname = "x"\nabout = "y"\n[nemesis]\n'
    read = parse(nemesis + 'faults = { crash = 1 }\npoints = { "before-send:ACK" = 0 }\n').nemesis
    assert read is not None
    assert read.points == {"before-send:ACK": 0.0}
    everything = ", ".join(f'"{point}" = 0' for point in POINTS)
    for nothing in (f"faults = {{ crash = 1 }}\npoints = {{ {everything} }}", "faults = { crash = 0 }", "faults = {}"):
        ((_, told),) = mistakes_of(f"{nemesis}{nothing}\n")
        assert "all weights are 0" in told


def test_the_error_names_file_line_and_what_is_allowed() -> None:
    with pytest.raises(
        ScenarioError, match=r"some\.toml:6: \[\[fault\]\] number 1, target: .*node-9.*node-1 to node-3"
    ):
        parse(with_faults('at = 1\ntarget = "node-9"\ndo = "crash"').replace("\n\n", "\n"), "some.toml")


def test_a_name_that_a_fault_has_at_the_wrong_time_is_not_called_missing() -> None:
    """Of two faults at the same time neither is the earlier or the later one."""
    named = 'at = 1\ndo = "pause"\ntarget = "leader"\nas = "Old"'
    for key in ("awaits", "until"):
        [(_, words)] = mistakes_of(with_faults(named, f'at = 1\ndo = "crash"\ntarget = "one"\n{key} = "Old"'))
        assert words.endswith("is called 'Old'. There is a fault of this name: compare the two times (`at`).")


@pytest.mark.parametrize("value", ["crash", "“crash”"])
def test_a_text_without_quotes_is_told_what_it_needs(value: str) -> None:
    [(line, words)] = mistakes_of(f"[scenario]\n\n[[fault]]\ndo = {value}\n")
    assert line == 4
    assert words.endswith('A text needs straight quotes: "like this".')


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            'at = 1\ndo = "crash"',
            "target is missing. Allowed: leader, follower, one, minority, majority, all, node-N, or a list of",
        ),
        ('do = "crash"\ntarget = "one"', "the key at is missing"),
        ('at = 99\ndo = "crash"\ntarget = "one"', "after the end"),
        ('at = -1\ndo = "crash"\ntarget = "one"', "out of range"),
        ('at = nan\ndo = "crash"\ntarget = "one"', "out of range"),
        ('at = 1\ndo = "restart"\ntarget = "leader"', "a node that is down has no role"),
        ('at = 1\ndo = "crash"\ntarget = []', "empty"),
        ('at = 1\ndo = "crash"\ntarget = ["one", "one"]', "twice"),
        ('at = 1\ndo = "clock-jump"\nms = 5\nfor = 3\ntarget = "one"', "leave `for` out"),
        ('at = 1\ndo = "crash"\ntarget = "one"\nshape = "ring"', "no key of crash"),
        ('at = 1\ndo = "partition"\nshape = "ring"', "takes at least 4 nodes"),
        ('at = 1\ndo = "partition"\nshape = "ring"\ntarget = "one"', "leave it out"),
        ('at = 1\ndo = "partition"\nshape = "pairs"', "both or none"),
        ('at = 1\ndo = "partition"\nshape = "pairs"\npairs = "1,2,3"', "not a list of pairs"),
        ('at = 1\ndo = "partition"\nshape = "pairs"\npairs = [[1, 4]]', "no link of nodes 1 to 3"),
        ('at = 1\ndo = "partition"\nshape = "isolate"\ntarget = "all"', "nothing is cut"),
        ('at = 1\ndo = "partition"\nshape = "isolate"\ntarget = ["minority", "majority"]', "nothing is cut"),
        ('at = 1\ndo = "partition"\nshape = "majority-minority"\ntarget = "majority"', "minority's side"),
        ('at = 1\ndo = "clock-rate"\nrate = 3\ntarget = "one"', "from 0.5 to 2"),
        ('at = 1\ndo = "bandwidth"\nkb_per_s = -1\ntarget = "one"', "out of range"),
        ('at = 1\ndo = "crash-at"\npoint = "after-send:TXN"\ntarget = "one"', "does not happen at after-send"),
        ('at = 1\ndo = "crash-at"\npoint = "after-rename:TXN"\ntarget = "one"', "SNAPSHOT"),
        ('at = 1\ndo = "crash-at"\npoint = "after-sync:TXN#0"\ntarget = "one"', "not a count"),
        ('at = 1\ndo = "crash-at"\npoint = "after-send:COMIT"\ntarget = "one"', "Did you mean COMMIT?"),
    ],
)
def test_a_wrong_fault_is_explained(fault: str, words: str) -> None:
    found = mistakes_of(with_faults(fault))
    assert len(found) == 1
    assert words in found[0][1]


def test_a_power_cut_needs_the_disk_that_can_lose_bytes() -> None:
    fault = 'at = 1\ndo = "power-cut"\ntarget = "all"'
    assert "faithful" in mistakes_of(with_faults(fault, head='disk = "ordinary"'))[0][1]
    assert parse(with_faults(fault)).faithful


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (["crash node-1 1", "pause node-1 2"], "pause of node-1 at 2 s, but it is down since 1 s (crash)"),
        (["restart node-1 1"], "but it is up"),
        (["crash node-1 1 5", "restart node-1 2"], "comes back by itself at 6 s"),
        (["pause node-1 1", "pause node-1 2"], "but it is paused"),
        (["resume node-1 1"], "but it is up"),
        (["crash all 1", "slow-disk node-2 2"], "but it is down"),
        (["crash node-1 1", "restart all 2", "restart node-1 3"], "but it is up"),
    ],
)
def test_contradictions_that_can_be_known_are_errors(faults: list[str], words: str) -> None:
    found = mistakes_of(with_faults(*map(_short, faults)))
    assert len(found) == 1
    assert words in found[0][1]


@pytest.mark.parametrize(
    "faults",
    [
        ["crash leader 1", "restart one 2"],
        ["crash leader 1", "pause node-1 2"],
        ["crash node-1 1 2", "crash node-1 4"],
        ["pause node-1 1", "crash node-1 2", "restart node-1 3"],
        ["crash node-1 1", "crash all 2", "restart all 3", "pause node-1 4"],
        ["crash node-1 1", "corrupt node-1 2", "restart node-1 3"],
    ],
)
def test_a_schedule_that_may_be_right_is_accepted(faults: list[str]) -> None:
    assert len(parse(with_faults(*map(_short, faults))).faults) == len(faults)


def _short(words: str) -> str:
    do, target, at, *lasts = words.split()
    extra = "\nms = 5" if do == "slow-disk" else ""
    return f'at = {at}\ndo = "{do}"\ntarget = "{target}"{extra}' + (f"\nfor = {lasts[0]}" if lasts else "")


def test_one_link_is_not_cut_in_two_ways_at_once() -> None:
    cut = 'at = {at}\ndo = "partition"\nshape = "isolate"\ntarget = "{target}"\nhow = "{how}"\nfor = 3'
    timeout = cut.format(at=1, target="node-1", how="timeout")
    stall = cut.format(at=2, target="node-2", how="stall")
    assert "link 1,2 is cut with stall" in mistakes_of(with_faults(timeout, stall))[0][1]
    parse(with_faults(timeout, cut.format(at=5, target="node-2", how="stall")))
    parse(with_faults(timeout, cut.format(at=2, target="node-2", how="timeout")))


def test_contradicting_expectations_are_refused() -> None:
    text = with_faults() + '[expect]\nverdict = "BEYOND-FAULT-MODEL"\n'
    assert parse(text).expect.exit == 5
    assert "does not exit with 0" in mistakes_of(text + "exit = 0\n")[0][1]


def test_a_defect_is_known_by_its_name() -> None:
    found = mistakes_of(with_faults(head='defect = "ack-before-sinc"'))
    assert "Did you mean ack-before-sync?" in found[0][1]
    assert parse(with_faults(head='defect = "ack-before-sync"')).defect == "ack-before-sync"


def test_the_table_of_kinds_names_every_kind_and_key() -> None:
    table = describe_kinds().splitlines()[2:]
    assert [line.split("`")[1] for line in table] == list(KINDS)
    for line, kind in zip(table, KINDS.values(), strict=True):
        assert all(f"`{key.name}`" in line for key in kind.keys)


def test_schedule_and_nemesis_exclude_each_other() -> None:
    text = with_faults('at = 1\ndo = "crash"\ntarget = "one"') + "[nemesis]\nfaults = { crash = 1 }\n"
    assert "not both" in mistakes_of(text)[0][1]
    assert "not a fault that can be drawn" in mistakes_of(with_faults() + "[nemesis]\nfaults = { restart = 1 }\n")[0][1]


def test_another_number_of_nodes_is_checked_against_the_targets() -> None:
    text = with_faults('at = 1\ndo = "crash"\ntarget = "node-5"', head="nodes = 5")
    assert parse(text, nodes=7).nodes == 7
    assert "there is no node-5" in mistakes_of(text, nodes=3)[0][1]
    assert "--nodes" in mistakes_of(text, nodes=0)[0][1]


def test_one_node_at_least_votes() -> None:
    text = '[scenario]\nname = "watched"\nnodes = 5\nobservers = 2\n'
    watched = parse(text)
    assert (watched.nodes, watched.observers, watched.voters) == (5, 2, 3)
    assert parse(watched.to_toml()) == watched
    with pytest.raises(
        ScenarioError, match=r":4: \[scenario\] observers: 2 observers are too many. Allowed: at most 1: one"
    ):
        parse(text, nodes=2)


def test_a_nemesis_can_draw_a_fault_before_the_end() -> None:
    text = '[scenario]\nname = "short"\nduration = {}\n[nemesis]\nevery = [3, 200]\nfaults = {{ crash = 1 }}\n'
    ((_, told),) = mistakes_of(text.format(3))
    assert "[nemesis] every: the first fault would come after the end: 3 s is too long" in told
    assert parse(text.format(3.5)).nemesis is not None


def test_a_nemesis_counts_the_nodes_that_vote() -> None:
    nemesis = "[nemesis]\nfaults = { crash = 1, partition = 1 }\n"
    observed = parse('[scenario]\nname = "watched"\nnodes = 5\nobservers = 2\nduration = 60\n' + nemesis)
    assert observed.schedule(3) == parse('[scenario]\nname = "three"\nduration = 60\n' + nemesis).schedule(3)


def test_a_mistake_in_an_option_has_no_line_of_the_file() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(GOOD, "some.toml", nodes=99)
    assert str(caught.value).startswith("1 mistake in the command\n--nodes: 99 is out of range.")
    with pytest.raises(ScenarioError) as caught:
        parse("[scenario]\n", "some.toml", nodes=99)
    first, *lines = str(caught.value).splitlines()
    assert first == "2 mistakes in some.toml"
    assert [line.partition(" ")[0] for line in lines] == ["--nodes:", "some.toml:1:"]


def test_a_syntax_error_has_its_line() -> None:
    assert mistakes_of('[scenario]\nname = "x"\nabout = \n')[0][0] == 3


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "marked.toml").write_text(GOOD, encoding="utf-8-sig")
    assert load(tmp_path / "marked.toml").source == GOOD


def test_a_file_that_cannot_be_read_is_one_clear_mistake(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        load(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load(tmp_path / "latin.toml")
    with pytest.raises(ScenarioError, match="can't be read"):
        load(tmp_path)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_scenario_is_right_and_survives_being_written(path: Path) -> None:
    scenario = load(path)
    assert scenario.name == path.stem
    assert parse(scenario.to_toml()) == scenario


def test_a_drawn_schedule_can_be_written_down() -> None:
    long_mix = load(next(path for path in SHIPPED if path.stem == "long-mix"))
    head = long_mix.to_toml().split("[nemesis]")[0]
    steps = long_mix.schedule(3)
    import dataclasses

    fixed = dataclasses.replace(long_mix, nemesis=None, faults=tuple(steps))
    again = parse(fixed.to_toml())
    assert again.schedule() == steps
    assert head.split("[[fault]]")[0] in fixed.to_toml()


@unhurried
@given(st.text(max_size=300))
def test_no_text_leads_to_a_traceback(text: str) -> None:
    with contextlib.suppress(ScenarioError):
        parse(text)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10) | st.floats(-5, 10) | st.sampled_from(["one", "crash", "ring", ""]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
_KEYS = st.sampled_from(["at", "do", "target", "for", "shape", "pairs", "point", "ms", "how", "odd"])


@unhurried
@given(st.lists(st.dictionaries(_KEYS, _VALUES, max_size=6), max_size=4), st.integers(1, 5))
def test_no_fault_leads_to_a_traceback(faults: list[dict[str, object]], nodes: int) -> None:
    from zab_chaos.faults.toml_writing import _value

    written = ["\n".join(f"{key} = {_value(v)}" for key, v in one.items() if v is not None) for one in faults]
    try:
        scenario = parse(with_faults(*(text.replace("None", "0") for text in written), head=f"nodes = {nodes}"))
    except ScenarioError as error:
        scenario, told = None, error
    if scenario is None:
        assert all(mistake.line >= 1 and mistake.wrong for mistake in told.mistakes)
    else:
        assert parse(scenario.to_toml()) == scenario


def with_operations(*operations: str, workload: str = "clients = 2\nkeys = 3") -> str:
    listed = "".join(f"[[operation]]\n{operation}\n" for operation in operations)
    return f'[scenario]\nname = "x"\nabout = "y"\nduration = 5\n[workload]\n{workload}\n{listed}'


def test_written_operations_are_read_by_time_and_written_back() -> None:
    scenario = parse(with_operations('at = 3\ndo = "get"\nclient = 2\nkey = 2', "at = 1.5"))
    assert scenario.operations == (Operation(at=1.5), Operation(at=3.0, do="get", client=2, key=2))
    text = scenario.to_toml()
    assert "rate" not in text
    assert parse(text) == scenario


def test_every_mistake_of_written_operations_is_told() -> None:
    wrong = (
        "at = 6", "at = 1\nclient = 3", "at = 1\nkey = 4", 'at = 1\ndo = "sett"', "at = 1\nnod = 2", "key = 1",
        "at = 1\nnode = 9", 'at = 1\nawaits = "X"',
    )  # fmt: skip
    told = mistakes_of(with_operations(*wrong, workload="clients = 2\nkeys = 3\nrate = 5\nmix = { set = 1 }"))
    words = "\n".join(text for _, text in told)
    for part in (
        "[workload] rate: rate draws operations",
        "[workload] mix: mix draws operations",
        "[[operation]] number 1, at: 6 is too much. Allowed: up to 5 s",
        "[[operation]] number 2, client: 3 is too much. Allowed: 1 to 2",
        "[[operation]] number 3, key: 4 is too much. Allowed: 0 to 3",
        "Did you mean set?",
        "'nod' is no key of an operation",
        "[[operation]] number 6: the key at is missing",
        "[[operation]] number 7, node: 9 is too much. Allowed: 1 to 3",
        "[[operation]] number 8, awaits: no fault is called 'X'. No fault has a name yet; give one with `as = \"X\"`.",
    ):
        assert part in words
    assert len(told) == 10
    assert "operations are written as [[operation]] tables" in str(
        mistakes_of('operation = 1\n[scenario]\nname="x"\nabout="y"')
    )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            'target = "nope"',
            "'nope' is no target. Allowed: leader, follower, one, minority, majority, all, node-1 to node-3",
        ),
        ('target = "Leader-1"', "no earlier fault calls its nodes Leader-1"),
        (
            'target = "led"\nawaits = "old"',
            'No earlier fault and no operation has a name yet; give one with `as = "Old"`.',
        ),
        ("target = true", "target: true is no target"),
        ("target = [2026-01-01, 1.5]", "target: 2026-01-01 is no target"),
    ],
)
def test_a_mistake_shows_what_was_written_and_suggests_only_what_is_close(fault: str, words: str) -> None:
    told = "\n".join(text for _, text in mistakes_of(with_faults(f'at = 1\ndo = "crash"\n{fault}')))
    assert words in told
    assert "Did you mean node" not in told


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (
            "name = 2026-01-01",
            "name: 2026-01-01 is not a text. Allowed: 1 to 100 small letters, digits, - and /, but not latest.",
        ),
        (
            'name = "x"\nrecord = { a = false, b = [12:00:00] }',
            "record: { a = false, b = [12:00:00] } is neither true nor false",
        ),
        ('name = "x"\n[limits]\nframe_bytes = 10', "Allowed: a whole number from 1024 to"),
        ('name = "x"\n[expect]\nverdict = "pass"', "Did you mean PASS?"),
    ],
)
def test_a_value_is_shown_as_the_file_has_it(head: str, words: str) -> None:
    ((_, told),) = mistakes_of(f'[scenario]\nabout = "y"\n{head}\n')
    assert words in told


def test_a_name_that_is_used_twice_is_told_with_all_other_mistakes() -> None:
    source = with_operations('at = 1\nas = "X"', 'at = 2\nas = "X"', "at = 9", 'at = 3\nas = "Y"')
    line = source.splitlines().index('as = "X"') + 1
    assert mistakes_of(source) == [
        (
            line + 3,
            f"[[operation]] number 2, as: the name X is already used in line {line}, by [[operation]] number 1. "
            "Allowed: a name of its own.",
        ),
        (line + 5, "[[operation]] number 3, at: 9 is too much. Allowed: up to 5 s."),
    ]


def test_a_faults_defaults_are_left_out_of_a_written_file() -> None:
    scenario = parse(with_faults('at = 1\ndo = "power-cut"\ntarget = "all"\nfor = 1'))
    assert "variant" not in scenario.to_toml()
    assert parse(scenario.to_toml()) == scenario


OUTSET = """
[scenario]
name = "outset"
about = "y"

[[disk]]
node = 2
accepted_epoch = 3
current_epoch = 2
log = [[1, 1], [1, 2], [2, 1]]

[[fault]]
at = 1
do = "crash"
target = "leader"
as = "L"

[[operation]]
at = 1
do = "cas"
version = 3
value = "hello"
node = 2
awaits = "L"

[expect]
violates = "one leader an epoch"
progress_within = 5

[expect.state]
"/key-0" = "hello"
"/key-1" = ["a", false]
"""


def test_disks_operations_and_expectations_are_read_and_written() -> None:
    scenario = parse(OUTSET)
    assert scenario.disks == (InitialDisk(node=2, accepted_epoch=3, current_epoch=2, log=((1, 1), (1, 2), (2, 1))),)
    assert scenario.operations == (Operation(at=1.0, do="cas", version=3, value="hello", node=2, awaits="L"),)
    expect = scenario.expect
    assert (expect.verdict, expect.exit, expect.progress_within) == ("VIOLATION", 1, 5.0)
    assert expect.state == {"/key-0": ("hello",), "/key-1": ("a", None)}
    assert parse(scenario.to_toml()) == scenario


def test_every_mistake_of_disks_and_expectations_is_told() -> None:
    told = mistakes_of(
        '[scenario]\nname = "x"\nabout = "y"\n'
        "[[disk]]\nnode = 4\n"
        "[[disk]]\nnode = 1\ncurrent_epoch = 2\n"
        "[[disk]]\nnode = 1\nlog = [[1, 1]]\n"
        "[[disk]]\nnode = 2\nlog = [[1, 2]]\n"
        "[[disk]]\naccepted_epoch = 2\n"
        '[expect]\nverdict = "PASS"\nviolates = "agreement"\nstate = { key = "1" }\n'
    )
    assert [line for line, _ in told] == [4, 6, 9, 9, 14, 15, 19, 20]
    words = "\n".join(text for _, text in told)
    for part in (
        "there is no node 4",
        "current_epoch 2 was never promised. Allowed: at most accepted_epoch, 0",
        "the disk of node 1 is given twice",
        "a transaction of epoch 1 is not of the epochs up to current_epoch",
        "[1, 2] does not follow [0, 0]",
        "the key node is missing",
        "a run that is PASS violates nothing",
        "'key' = '1' is not the path of a znode with its value",
    ):
        assert part in words


def disk(node: int, current: int, log: str) -> str:
    return f"[[disk]]\nnode = {node}\naccepted_epoch = 9\ncurrent_epoch = {current}\nlog = [{log}]\n"


@pytest.mark.parametrize(
    "other",
    [
        disk(2, 3, "[1, 1], [1, 2]"),  # it has joined epoch 3 with another history
        disk(2, 3, "[1, 1], [1, 2], [3, 1]"),  # and has accepted one of its transactions
        disk(2, 5, "[1, 1], [1, 2], [3, 1], [5, 1]"),  # and is in a later epoch by now
    ],
)
def test_disks_that_have_joined_an_epoch_with_different_histories_are_a_mistake(other: str) -> None:
    ((line, words),) = mistakes_of('[scenario]\nname = "x"\n' + disk(1, 3, "[1, 1], [2, 1], [3, 1]") + other)
    assert line == 8
    assert "the log before epoch 3 is not that of node 1, and both nodes have joined this epoch" in words


@pytest.mark.parametrize(
    "other",
    [
        disk(2, 3, "[1, 1], [2, 1]"),
        disk(2, 2, "[1, 1], [2, 1], [2, 2]"),  # what it has of epoch 2 was not in the initial history of epoch 3
        disk(2, 1, "[1, 1], [1, 2]"),
        disk(2, 4, "[1, 1], [4, 1]"),
        disk(2, 0, ""),
    ],
)
def test_disks_that_are_behind_or_have_more_are_none(other: str) -> None:
    assert len(parse('[scenario]\nname = "x"\n' + disk(1, 3, "[1, 1], [2, 1], [3, 1]") + other).disks) == 2


def test_the_properties_that_may_be_expected_are_those_that_are_judged() -> None:
    judged = {checker.name for checker in ALL} - {"fault took effect", "trace integrity"}
    assert judged <= set(PROPERTIES)


def test_the_levels_of_isolation_that_may_be_expected_are_those_by_which_runs_are_judged() -> None:
    assert list(LEVELS) == list(isolation.LEVELS)


def test_the_about_text_may_be_left_out() -> None:
    scenario = parse('[scenario]\nname = "silent"\n')
    assert scenario.about == ""
    assert parse(scenario.to_toml()) == scenario
    assert "about" not in scenario.to_toml()


@pytest.mark.parametrize("fault", ['do = "latency"\nms = 5', 'do = "stall"', 'do = "flap"', 'do = "partition"'])
def test_a_single_node_has_no_links(fault: str) -> None:
    (found,) = mistakes_of(with_faults(f"at = 1\n{fault}", head="nodes = 1"))
    assert "there are no links" in found[1] or "takes at least 2 nodes" in found[1]


def test_a_fault_may_begin_when_another_one_heals() -> None:
    """As sums of floats the ends are a little later than the beginnings: 1.745 + 1.53 > 3.275."""
    pause = 'at = {}\ndo = "pause"\ntarget = "node-1"\nfor = {}'
    cut = 'at = {}\ndo = "partition"\ntarget = "node-1"\nhow = "{}"\nfor = {}'
    parse(with_faults(pause.format(1.745, 1.53), pause.format(3.275, 1)))
    parse(with_faults(cut.format(1.745, "stall", 1.53), cut.format(3.275, "timeout", 1)))


@pytest.mark.parametrize("table", ["[expect]\nstate", "[zookeeper]\nsettings", "[zookeeper]\njava"])
def test_names_of_any_characters_are_written_so_that_they_can_be_read_again(table: str) -> None:
    scenario = parse(f'[scenario]\nname = "x"\n{table} = {{ "/\U0001f600 \\u007f \\" é" = "1" }}\n')
    assert parse(scenario.to_toml()) == scenario


def test_the_value_of_an_operation_is_written_as_it_is() -> None:
    scenario = parse('[scenario]\nname = "x"\n[[operation]]\nat = 0\nvalue = " a\\n"\n')
    assert scenario.operations[0].value == " a\n"
    assert parse(scenario.to_toml()) == scenario


@pytest.mark.parametrize(
    ("name", "allowed"), [("latest", False), ("latest/x", False), ("latest-x", True), ("x/latest", True)]
)
def test_no_scenario_is_called_as_the_link_to_the_newest_run(name: str, allowed: bool) -> None:
    text = f'[scenario]\nname = "{name}"\n'
    assert (parse(text).name == name) if allowed else mistakes_of(text)


def test_a_text_that_is_too_long_is_not_called_empty() -> None:
    assert mistakes_of(f'[scenario]\nname = "x"\nabout = "{"y" * 2001}"\n')[0][1].startswith(
        "[scenario] about: the text has 2001 characters."
    )
