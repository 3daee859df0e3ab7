"""Finding backends by name, and checking scenarios against them."""

from dataclasses import replace
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import ClassVar

import pytest

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.registry import KINDS, reduced_to
from zab_chaos.faults.scenario import FaultStep, Scenario, ScenarioError, Workload, parse
from zab_chaos.harness.backends import fitting as fitting_module
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.backend import Backend, Deployment, RunOptions
from zab_chaos.harness.backends.fitting import disk_mistakes, fitted, mistakes, without_unsupported
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import HISTORY
from zab_chaos.node.config import Limits
from zab_chaos.node.crash_points import FAIL_STEPS, POINTS

HEAD = '[scenario]\nname = "asked"\nabout = "It is asked of a backend."\n'


class Bare(Backend):
    """A backend without abilities: it can only start and end nodes, and read and write keys."""

    name = "bare"
    abilities = frozenset({Ability.PAUSE})
    operations = frozenset({"get", "set"})
    evidence = HISTORY
    defects: ClassVar = {"bug": "--bug"}

    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        raise NotImplementedError


class Text(Bare):
    """A backend whose operations are a text instead of a set, and whose defects have no texts."""

    operations = "get"  # type: ignore[assignment]
    defects: ClassVar = ("bug",)


class Nameless(Bare):
    name = None  # type: ignore[assignment]
    abilities = frozenset({"links"})  # type: ignore[arg-type]
    stale_reads = 1  # type: ignore[assignment]


def test_our_own_backends_are_found_and_others_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [backend.name for backend in registry.ours()] == list(registry.OURS)
    points = [
        EntryPoint("bare", f"{__name__}:Bare", registry.GROUP),
        EntryPoint("nameless", f"{__name__}:Nameless", registry.GROUP),
        EntryPoint("gone", "no_such_package:Backend", registry.GROUP),
        EntryPoint("none", "pathlib:Path", registry.GROUP),
        EntryPoint("part", "zab_chaos.harness.backends.system:SystemBackend", registry.GROUP),
        EntryPoint("sim", f"{__name__}:Bare", registry.GROUP),
        EntryPoint("text", f"{__name__}:Text", registry.GROUP),
    ]
    monkeypatch.setattr(
        registry, "entry_points", lambda group, name=None: [each for each in points if name in (None, each.name)]
    )
    found = SimpleNamespace(Bare=Bare, Text=Text, Nameless=Nameless)
    monkeypatch.setitem(__import__("sys").modules, __name__, found)
    assert registry.names() == [*registry.OURS, "bare", "gone", "nameless", "none", "part", "text"]
    assert isinstance(registry.find("bare"), Bare)
    assert registry.find("sim").name == "sim"  # nobody takes our names
    for name, words in (
        ("gone", "'gone', no_such_package:Backend, can't be loaded: No module named"),
        ("none", "'none', pathlib:Path, is no"),
        ("part", "SystemBackend, can't be loaded: Can't instantiate abstract class"),
        (
            "text",
            "'text': `operations` must be a set of names out of .*, not 'get'\n.*: `defects` must be .*, not ..bug",
        ),
        (
            "nameless",
            "`name` must be a text, not None\n.*`abilities` must be a set .*links.*\n.*`stale_reads` .*, not 1",
        ),
        ("bar", "no backend is called 'bar'. Did you mean bare"),
    ):
        with pytest.raises(BadInput, match=words):
            registry.find(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('disk = "faithful"\n', 'disk = "faithful" can\'t be done on bare; .*no disk that loses unsynced bytes'),
        ("record = true\n", "record = true can't be done on bare"),
        ("[timing]\ntimeout_ms = 500\n", r"\[timing\] can't be done on bare"),
        ("[workload]\nmix = { set = 1, multi = 1 }\n", "multi can't be asked for on bare; its clients know get, set"),
        ("[[operation]]\nat = 1\ndo = \"create\"\n", "create can't be asked for on bare"),
        ('[expect]\nstate = { "/a" = "1" }\n', r"\[expect\] state can't be done on bare"),
        ('[expect]\nviolates = "epochs"\n', "'epochs' can't be judged on bare; what can is linearizable keys, isolation"),
        ("[expect]\nanswered_within = 5\n", "answered_within can't be judged on bare: when its nodes have"),
        ('[[fault]]\nat = 1\ndo = "crash"\ntarget = "leader"\n', "target = leader can't be done on bare"),
        ('[[fault]]\nat = 1\ndo = "crash"\ntarget = "one"\nkeeps_cache = true\n', "crash with keeps_cache = True"),
        ('[[fault]]\nat = 1\ndo = "wipe"\ntarget = "one"\ncrash-at = "before-sync:TXN"\n', "wipe with crash-at = before-s"),
        ("[nemesis]\nfaults = { crash = 1, partition = 1 }\n", "partition can't be done on bare; .*no proxies"),
        ('defect = "dirty-read"\n', "the defect 'dirty-read' can't be built into the nodes on bare; known there: bug"),
    ],
)  # fmt: skip
def test_a_missing_ability_is_a_mistake_with_a_reason(text: str, words: str) -> None:
    found = mistakes(Bare(), parse(HEAD + text))
    with pytest.raises(AssertionError, match=words):
        raise AssertionError("\n".join(found))
    assert mistakes(registry.find("processes"), parse(HEAD + text)) == []


def test_only_a_simulated_network_is_erratic_or_has_short_queues() -> None:
    asked = parse(HEAD + "erratic_network = true\n[limits]\nqueue_frames = 1\n")
    for name in ("sim", "lockstep"):
        assert mistakes(registry.find(name), asked) == []
        drawn = without_unsupported(registry.find(name), asked)
        assert (drawn.erratic_network, drawn.limits.queue_frames) == (True, 1)
    processes = registry.find("processes")
    (said,) = mistakes(processes, asked)
    assert "erratic_network = true can't be done on processes; it can be done on " in said
    drawn = without_unsupported(processes, asked)
    assert (drawn.erratic_network, drawn.limits.queue_frames) == (False, Limits().queue_frames)
    assert mistakes(processes, parse(drawn.source)) == []


def test_only_zookeepers_servers_observe() -> None:
    asked = parse('[scenario]\nname = "watched"\nobservers = 1\n')
    assert mistakes(registry.find("zookeeper"), asked) == []
    assert mistakes(registry.find("processes"), asked) == [
        "observers can't be done on processes; it can be done on zookeeper (processes has no nodes that do not vote)"
    ]


def test_steps_of_a_drawn_schedule_that_can_not_be_done_are_left_out() -> None:
    late = '[[fault]]\nat = 1\ndo = "late-frames"\ntarget = "node-1"\nms = 100\n'
    asked = parse(HEAD + late + '[[fault]]\nat = 2\ndo = "crash"\ntarget = "node-1"\n')
    assert without_unsupported(registry.find("sim"), asked).faults == asked.faults
    assert without_unsupported(registry.find("processes"), asked).faults == asked.faults[1:]


def test_only_simulated_clients_stand_still() -> None:
    asked = parse(HEAD + "[workload]\nstalls = 2\n")
    assert mistakes(registry.find("sim"), asked) == []
    assert without_unsupported(registry.find("sim"), asked).workload.stalls == 2
    processes = registry.find("processes")
    (said,) = mistakes(processes, asked)
    assert "[workload] stalls can't be done on processes; it can be done on " in said
    assert without_unsupported(processes, asked).workload == Workload()


def test_answered_within_needs_traces() -> None:
    (said,) = mistakes(registry.find("zookeeper"), parse(HEAD + "[expect]\nanswered_within = 5\n"))
    assert said == "[expect] answered_within can't be judged on zookeeper: when its nodes have a request is not known"


def test_both_points_of_a_fault_must_exist_on_the_backend() -> None:
    fault = '[[fault]]\nat = 1\ndo = "crash-at"\ntarget = "one"\npoint = "{}"\ncrash-at = "{}"\n'
    here, elsewhere = "before-write:SNAPSHOT", "before-sync:ANY"

    def wrong(point: str, again: str) -> list[str]:
        return mistakes(registry.find("zookeeper"), parse(HEAD + fault.format(point, again)))

    assert wrong(here, here) == []
    for points in ((here, elsewhere), (elsewhere, here)):
        (said,) = wrong(*points)
        assert said.startswith(f"crash-at can't be done at {elsewhere} on zookeeper; points there: ")


def test_a_fault_without_any_point_on_the_backend_can_not_be_done_there() -> None:
    fault = '[[fault]]\nat = 1\ndo = "fail-at"\ntarget = "one"\npoint = "before-sync:TXN"\n'
    (said,) = mistakes(registry.find("zookeeper"), parse(HEAD + fault))
    assert said == "fail-at can't be done on zookeeper; it can be done on processes, sim, lockstep, containers"


def test_a_nemesis_must_have_a_point_for_each_of_its_faults() -> None:
    """A drawn crash may be followed by a restart with a crash point."""
    fails = {point: 0.0 for point in POINTS if point.split(":")[0] in FAIL_STEPS}
    weights = ", ".join(f'"{point}" = 0' for point in fails)
    scenario = parse(HEAD + f"[nemesis]\nfaults = {{ fail-at = 1, pause-at = 1 }}\npoints = {{ {weights} }}\n")
    assert mistakes(registry.find("sim"), parse(HEAD + "[nemesis]\nfaults = { fail-at = 1 }\n")) == []
    (told,) = mistakes(registry.find("sim"), scenario)
    assert told.startswith(
        "fail-at can't be drawn: [nemesis] points gives weight 0 to all its points on sim: before-write:EPOCH"
    )
    assert scenario.nemesis is not None
    drawn = replace(scenario, nemesis=replace(scenario.nemesis, faults={"fail-at": 1.0, "pause-at": 1.0, "crash": 1.0}))
    fit = without_unsupported(registry.find("sim"), drawn).nemesis
    assert fit is not None
    assert fit.faults == {"pause-at": 1.0, "crash": 1.0}
    elsewhere = dict.fromkeys(POINTS, 0.0) | {"after-send:ANSWER": 1.0}
    drawn = replace(scenario, nemesis=replace(scenario.nemesis, faults={"crash": 1.0, "flap": 1.0}, points=elsewhere))
    assert mistakes(registry.find("sim"), drawn) == []
    (told,) = mistakes(registry.find("zookeeper"), drawn)
    assert told.startswith("crash can't be drawn: [nemesis] points gives weight 0")


ONE_WAY = (
    'do = "partition"\ntarget = "leader"\nshape = "one-way"\n',
    'do = "partition"\nshape = "pairs"\npairs = "1,2"\n',
    'do = "flap"\ntarget = "leader"\ndirection = "in"\n',
    'do = "flap"\npairs = "1,2"\n',
)
BOTH_WAYS = (
    'do = "partition"\ntarget = "leader"\nshape = "isolate"\n',
    'do = "partition"\nshape = "pairs"\npairs = "1,2,2,1"\n',
    'do = "flap"\ntarget = "leader"\n',
)


def test_a_one_way_cut_of_two_way_connections_is_a_mistake() -> None:
    backend = registry.find("zookeeper")

    def wrong(fault: str, how: str) -> list[str]:
        return mistakes(backend, parse(HEAD + f'[[fault]]\nat = 1\n{fault}how = "{how}"\n'))

    for fault in ONE_WAY:
        (said,) = wrong(fault, "disable")
        assert "with how = disable can't be done on zookeeper; it can be done on processes" in said
        assert wrong(fault, "stall") == []
    assert [wrong(fault, "disable") for fault in BOTH_WAYS] == [[], [], []]


def test_a_drawn_cut_is_replaced_by_one_that_the_backend_can_do() -> None:
    step = FaultStep(at=1.0, do="partition", target="one", lasts=1.0, params={
        "shape": "one-way", "how": "disable", "pairs": None, "direction": "in"})  # fmt: skip
    assert reduced_to(step, registry.find("zookeeper").abilities).params["how"] == "timeout"
    assert reduced_to(step, registry.find("processes").abilities) == step


NEEDS_FUSE = ('do = "power-cut"', 'do = "slow-disk"\nms = 5', 'do = "disk-full"', 'do = "disk-error"')


@pytest.mark.parametrize("fault", NEEDS_FUSE)
def test_on_zookeeper_a_disk_fault_needs_a_mounted_file_system(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = registry.find("zookeeper")
    asked = parse(HEAD + f'[[fault]]\nat = 1\n{fault}\ntarget = "all"\n')
    assert fitted(backend, parse(HEAD)).disk == "ordinary"
    assert fitted(backend, asked).disk == "fuse"
    assert fitted(backend, parse(HEAD + 'disk = "fuse"\n')).disk == "fuse"
    monkeypatch.setattr(
        fitting_module, "missing_requirement", lambda **_: ("there is no /dev/fuse", "sudo modprobe fuse")
    )
    assert mistakes(backend, parse(HEAD)) == []
    assert mistakes(backend, asked) == [
        "disk faults on zookeeper need a file system of our own, over FUSE, and there is no /dev/fuse: sudo modprobe fuse"
    ]


def test_on_zookeeper_the_missing_extra_is_that_of_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*, extra: str) -> tuple[str, str]:
        return "mfusepy is not installed", f"pip install 'zab-chaos[{extra}]'"

    monkeypatch.setattr(fitting_module, "missing_requirement", missing)
    asked = parse(HEAD + '[[fault]]\nat = 1\ndo = "power-cut"\ntarget = "all"\n')
    assert mistakes(registry.find("zookeeper"), asked)[0].endswith("pip install 'zab-chaos[zookeeper]'")
    ours = mistakes(registry.find("processes"), parse(HEAD, disk="fuse"))
    assert ours == [
        'disk = "fuse" on processes needs a file system of our own, over FUSE, and mfusepy is not installed: '
        "pip install 'zab-chaos[fuse]'"
    ]


def test_a_drawn_disk_fault_needs_a_mounted_file_system_too() -> None:
    backend = registry.find("zookeeper")
    for kind, disk in (("power-cut", "fuse"), ("crash", "ordinary")):
        assert fitted(backend, parse(HEAD + f"[nemesis]\nfaults = {{ {kind} = 1 }}\n")).disk == disk


def test_disk_fuse_needs_nodes_that_are_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting_module, "missing_requirement", lambda **_: None)
    scenario = parse(HEAD, disk="fuse")
    assert (scenario.disk, scenario.faithful) == ("fuse", True)
    assert mistakes(registry.find("processes"), scenario) == []
    for name in ("sim", "lockstep", "containers"):
        assert "can't be done on" in mistakes(registry.find(name), scenario)[0]
    with pytest.raises(ScenarioError, match=r"--disk: 'paper' is not known here.*faithful, ordinary, fuse"):
        parse(HEAD, disk="paper")
    with pytest.raises(ScenarioError, match="power cut loses unsynced bytes"):
        parse(HEAD + '[[fault]]\nat = 1\ndo = "power-cut"\ntarget = "all"\n', disk="ordinary")


def test_defaults_are_fitted_to_the_backend() -> None:
    scenario = parse(HEAD)
    assert mistakes(Bare(), scenario) == []
    found = fitted(Bare(), scenario)
    assert (found.disk, found.record, set(found.workload.mix)) == ("ordinary", False, {"get", "set"})
    assert fitted(registry.find("sim"), scenario) == scenario


def test_a_drawn_fault_loses_keys_that_the_backend_can_not_do() -> None:
    defaults = {key.name: key.default for key in KINDS["crash"].keys}
    step = FaultStep(
        at=1.0, do="crash", target="leader", params={"keeps_cache": True, "crash-at": "x", "enough": "none"}
    )
    assert reduced_to(step, frozenset(Ability)) == step
    assert reduced_to(step, Bare.abilities) == replace(step, target="one", params=defaults)


@pytest.mark.parametrize(
    "asked", ["[workload]\nvisits = 1\n", "[workload]\nclients = 1\nkeys = 1\n[[operation]]\nat = 1\nanew = true\n"]
)
def test_new_sessions_are_a_mistake_on_backends_without_them(asked: str) -> None:
    scenario = parse(f"{HEAD}{asked}")
    assert any(
        "clients that could end their sessions and begin others" in words for words in mistakes(Bare(), scenario)
    )
    assert not any("anew" in words or "visits" in words for words in mistakes(registry.find("sim"), scenario))


@pytest.mark.parametrize("name", ["processes", "sim", "lockstep", "containers"])
def test_clients_with_sessions_are_a_mistake_on_nodes_without_ephemeral_znodes(name: str) -> None:
    scenario = parse(f"{HEAD}[workload]\nsessions = 3\n")
    (words,) = mistakes(registry.find(name), scenario)
    assert words.startswith(f"[workload] sessions can't be done on {name}; it can be done on zookeeper")
    assert not any("sessions" in words for words in mistakes(registry.find("zookeeper"), scenario))


@pytest.mark.parametrize(
    ("name", "disk", "fault", "needed"),
    [
        ("zookeeper", "ordinary", 'do = "power-cut"', "fuse"),
        ("zookeeper", "ordinary", 'do = "slow-disk"\nms = 5', "fuse"),
        ("zookeeper", "ordinary", 'do = "crash"', None),
        ("zookeeper", "fuse", 'do = "power-cut"', None),
        ("processes", "faithful", 'do = "power-cut"', None),
        ("processes", "ordinary", 'do = "slow-disk"\nms = 5', None),
    ],
)
def test_a_fault_that_needs_another_disk_than_the_nodes_have_is_a_mistake(
    name: str, disk: str, fault: str, needed: str | None
) -> None:
    (step,) = parse(f'{HEAD}[[fault]]\nat = 1\ntarget = "one"\n{fault}').faults
    found = disk_mistakes(registry.find(name), Scenario(name="x", disk=disk), step)
    assert found == [
        f"{step.do} needs a disk that can do it: start the ensemble with --disk {needed}, in Python with disk={needed!r}, in "
        f"pytest with @pytest.mark.zab(disk={needed!r})"
    ] * (needed is not None)
