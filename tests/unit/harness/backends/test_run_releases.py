"""The releases of a run: which a scenario asks for, and what is refused before anything starts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.scenario import Scenario, parse
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.attributes import wrong_attributes
from zab_chaos.harness.backends.backend import RunOptions
from zab_chaos.harness.backends.fitting import mistakes
from zab_chaos.harness.backends.run_releases import RunReleases, asked_for, facts_about
from zab_chaos.harness.backends.system import Client, Place, SystemBackend
from zab_chaos.harness.backends.zookeeper import releases
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs.options import options_for, release_words

HEAD = '[scenario]\nname = "asked"\nabout = "It is asked of a backend."\n'
UPGRADE = '[[fault]]\nat = 1\ndo = "upgrade"\ntarget = "node-1"\n'
RESTART = '[[fault]]\nat = 1\ndo = "crash"\ntarget = "node-1"\n[[fault]]\nat = 2\ndo = "restart"\ntarget = "node-1"\n'


class Two(SystemBackend):
    """A system with two releases."""

    name = "two"
    releases = ("1.0", "2.0")

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        raise NotImplementedError

    def client(self, place: Place, timeout: float) -> Client:
        raise NotImplementedError


class One(Two):
    releases = ()


def options(**given: Any) -> RunOptions:
    return RunOptions(seed=1, results=Path(), command="", **given)


@pytest.mark.parametrize(
    ("text", "needed", "facts"),
    [
        ("", ["3.8.6"], {"old": "3.8.6"}),
        (UPGRADE, ["3.8.6", "3.9.5"], {"old": "3.8.6", "new": "3.9.5"}),
        (UPGRADE + 'release = "old"\n', ["3.8.6"], {"old": "3.8.6"}),
        (RESTART + 'release = "3.9.4"\n', ["3.8.6", "3.9.4"], {"old": "3.8.6"}),
        ("[nemesis]\nfaults = { upgrade = 1, crash = 1 }\n", ["3.8.6", "3.9.5"], {"old": "3.8.6", "new": "3.9.5"}),
    ],
)
def test_a_run_needs_the_releases_that_its_faults_name(text: str, needed: list[str], facts: dict[str, str]) -> None:
    both = RunReleases("3.8.6", "3.9.5")
    assert asked_for(parse(HEAD + text), both) == needed
    assert facts_about(parse(HEAD + text), both) == facts


@pytest.mark.parametrize("on", ["processes", "sim", "lockstep", "containers"])
def test_our_own_nodes_have_one_release(on: str) -> None:
    for text, what in ((UPGRADE, "upgrade"), (RESTART + 'release = "new"\n', "restart with release = new")):
        (said,) = mistakes(registry.find(on), parse(HEAD + text))
        assert said.startswith(f"{what} can't be done on {on}; it can be done on zookeeper")
        assert "no way to start a node with another release" in said
    drawn = parse(HEAD + "[nemesis]\nfaults = { upgrade = 1 }\n")
    assert mistakes(registry.find(on), drawn)[0].startswith(f"upgrade can't be done on {on}")


def test_a_release_that_a_fault_names_and_nobody_has_is_a_mistake() -> None:
    text = HEAD + UPGRADE + 'release = "2.1"\n' + UPGRADE.replace("node-1", "node-2") + 'release = "three"\n'
    first, second = mistakes(Two(), parse(text))
    more = "old and new, the releases of the run, are allowed too."
    assert first == f"upgrade with release = 2.1: two has no release '2.1'. Did you mean 2.0? {more}"
    assert second == f"upgrade with release = three: two has no release 'three'. Known: 1.0, 2.0. {more}"
    (said,) = mistakes(registry.find("zookeeper"), parse(HEAD + UPGRADE + 'release = "latest"\n'))
    assert said.startswith("upgrade with release = latest: ")
    assert "neither a version" in said


def test_a_backend_with_releases_begins_with_the_first_and_upgrades_to_the_last() -> None:
    scenario = parse(HEAD + UPGRADE)
    assert Two().run_releases(scenario, options()) == RunReleases("1.0", "2.0")
    assert Two().run_releases(scenario, options(release="2.0", to="1.0")) == RunReleases("2.0", "1.0")
    assert One().run_releases(scenario, options()) is None
    assert Two().abilities - One().abilities == {Ability.RELEASES}
    with pytest.raises(BadInput, match="have no releases to choose from"):
        One().release("1.0")
    assert wrong_attributes(Two(), Two.forms) == []


@pytest.mark.parametrize("wrong", ["1.0", ("1.0", "1.0"), (1, 2)])
def test_releases_are_different_texts(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Two, "releases", wrong)
    assert "`releases` must be a list of different texts" in wrong_attributes(Two(), Two.forms)[0]


def test_the_command_that_repeats_a_run_names_its_releases() -> None:
    scenario = parse(HEAD + UPGRADE)
    made = options_for("my.toml", scenario, seed=1, results=Path(), on="zookeeper", release="3.8.6", to="3.9.5")
    assert made.command == "zab run my.toml --on zookeeper --seed 1 --zookeeper 3.8.6 --to 3.9.5"
    assert (made.release, made.to) == ("3.8.6", "3.9.5")
    assert release_words("two", "1.0", None) == ["--from", "1.0"]
    with pytest.raises(BadInput, match=r"newest: this is neither .*\nlatest: this is neither "):
        options_for("my.toml", scenario, seed=1, results=Path(), on="zookeeper", release="newest", to="latest")


def zookeeper(text: str, **given: Any) -> RunReleases:
    found = registry.find("zookeeper").run_releases(parse(HEAD + text), options(**given))
    assert found is not None
    return found


def test_on_zookeeper_the_command_line_comes_before_the_scenario_and_that_before_the_newest_release() -> None:
    tables = '[zookeeper]\nrelease = "3.6.4"\nto = "3.7.2"\n'
    assert zookeeper("") == RunReleases(releases.newest(), releases.newest())
    assert zookeeper(tables) == RunReleases("3.6.4", "3.7.2")
    assert zookeeper(tables, release="3.5.10", to="3.8.6") == RunReleases("3.5.10", "3.8.6")


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The releases that were fetched; those of 3.99 and 3.98 do not exist."""
    found: list[str] = []

    def locate(named: str, on_fetch: Callable[[str], None]) -> releases.Release:
        found.append(named)
        if named.startswith(("3.99", "3.98")):
            raise BadInput(f"there is no ZooKeeper {named}")
        return releases.Release(named, (), Path())

    monkeypatch.setattr(releases, "locate", locate)
    return found


def test_all_releases_of_a_run_are_fetched_before_it_starts(fetched: list[str]) -> None:
    backend, scenario = registry.find("zookeeper"), parse(HEAD + UPGRADE)
    backend.prepare(scenario, options(release="3.8.6", to="3.9.5"), Quiet())
    assert fetched == ["3.8.6", "3.9.5"]


def test_each_release_of_a_run_must_be_able_to_do_what_the_scenario_asks_for(fetched: list[str]) -> None:
    asked = parse(HEAD + "observers = 1\n" + UPGRADE)
    for old, new in (("3.4.5", "3.9.5"), ("3.9.5", "3.4.5")):
        with pytest.raises(BadInput, match=r"observers: those of ZooKeeper 3\.4\.5"):
            registry.find("zookeeper").prepare(asked, options(release=old, to=new), Quiet())
    registry.find("zookeeper").prepare(asked, options(release="3.4.6", to="3.9.5"), Quiet())


def test_all_releases_that_do_not_exist_are_refused_at_once(fetched: list[str]) -> None:
    backend, scenario = registry.find("zookeeper"), parse(HEAD + UPGRADE)
    with pytest.raises(BadInput, match=r"no ZooKeeper 3.99.1\nthere is no ZooKeeper 3.98.2"):
        backend.prepare(scenario, options(release="3.99.1", to="3.98.2"), Quiet())


def test_a_scenario_that_upgrades_is_written_as_it_was_read() -> None:
    text = HEAD + '[zookeeper]\nrelease = "3.6.4"\nto = "3.7.2"\n' + RESTART + 'release = "3.9.4"\n'
    scenario: Scenario = parse(text)
    assert parse(scenario.to_toml()) == scenario
