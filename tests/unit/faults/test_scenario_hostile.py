"""Absurd values of any type and size in scenario files: each is a mistake with its line, and never a traceback."""

from contextlib import suppress
from pathlib import Path

import pytest

from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import ScenarioError, load, parse

HEAD = '[scenario]\nname = "x"\nabout = "y"\n'
FAULT = '[[fault]]\nat = 1\ndo = "crash"\n'
HUGE = "1" + "0" * 400  # no float is so large
ENDLESS = "9" * 5000  # more digits than Python reads

HOSTILE = {
    "a duration that no float holds": HEAD + f"duration = {HUGE}",
    "an endless duration": HEAD + "duration = 1e400",
    "no number at all": HEAD + "duration = nan",
    "a rate that no float holds": HEAD + f"[workload]\nrate = {HUGE}",
    "a weight that no float holds": HEAD + f"[workload]\nmix = {{ set = {HUGE} }}",
    "a seed beyond 64 bits": HEAD + f"seed = {2**64}",
    "more digits than anybody reads": HEAD + f"nodes = {ENDLESS}",
    "lists in lists in lists": HEAD + "nodes = " + "[" * 2000 + "]" * 2000,
    "a time that no float holds": HEAD + f'[[fault]]\nat = {HUGE}\ndo = "crash"',
    "a time of an operation that no float holds": HEAD + f"[[operation]]\nat = {HUGE}",
    "a name that is a number": HEAD + FAULT + "as = 3",
    "a target that is a table": HEAD + FAULT + "target = {}",
    "a list of tables as target": HEAD + FAULT + "target = [{}]",
    "a node with endless digits": HEAD + FAULT + f'target = "node-{ENDLESS}"',
    "a point that is reached endlessly": HEAD
    + f'[[fault]]\nat = 1\ndo = "crash-at"\npoint = "before-sync:TXN#{ENDLESS}"',
    "pairs with endless digits": HEAD + f'[[fault]]\nat = 1\ndo = "partition"\nshape = "pairs"\npairs = "1,{ENDLESS}"',
    "a kind that is a list": HEAD + "[[fault]]\nat = 1\ndo = []",
    "a verdict that is a table": HEAD + "[expect]\nverdict = {}",
}
TYPES = ("[]", "{}", "[[[]]]", "true", "1979-01-01", HUGE, "-1e400", '"\\u0000"')


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_it_is_a_mistake_in_the_scenario(source: str) -> None:
    with pytest.raises(ScenarioError):
        parse(source)


@pytest.mark.parametrize("awaits", ["[]", "{}", "3", '["A"]'])
def test_what_a_fault_awaits_is_a_name(awaits: str) -> None:
    with pytest.raises(ScenarioError, match=r"scenario:10: .*, awaits: no earlier fault and no operation is called"):
        parse(HEAD + FAULT + f'as = "A"\n[[fault]]\nat = 2\nawaits = {awaits}\ndo = "crash"\n')


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["target", "for", "as", "awaits", "at", "own"])
def test_no_value_of_a_key_of_a_fault_leads_to_a_traceback(kind: str, key: str) -> None:
    for value in TYPES:
        for name in [own.name for own in KINDS[kind].keys] if key == "own" else [key]:
            at = "" if name == "at" else "at = 1\n"
            with suppress(
                ScenarioError
            ):  # whether it is a mistake is for others to test; nothing else may come out of it
                parse(HEAD + f'[[fault]]\n{at}do = "{kind}"\n{name} = {value}\n')


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_bytes(HEAD.encode() + b"\xff")
    with pytest.raises(ScenarioError, match="is not UTF-8"):
        load(tmp_path / "s.toml")
