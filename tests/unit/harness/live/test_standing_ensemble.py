"""An ensemble that is used by hand, in the simulated world: its methods, its folder, and its errors."""

import json
import threading
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from rich.console import Console

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.kind import Confirmation, FaultError
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import Scenario, load, parse
from zab_chaos.faults.scheduler import FaultRecord
from zab_chaos.harness.backends.backend import RunOptions
from zab_chaos.harness.backends.simulator.backend import SimBackend
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.live import Done, Ensemble, Failed, Unknown
from zab_chaos.harness.live.fault_methods import STATE_WORDS, kind_of, method_names
from zab_chaos.harness.live.scenario import scenario_text
from zab_chaos.harness.machine.interrupt import Forced
from zab_chaos.harness.report import terminal
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.harness.runs.phases import RunPhases
from zab_chaos.model.verdict import Judgement, Outcome
from zab_chaos.node.tree.requests import Get, Set

pytestmark = pytest.mark.slow


def standing(tmp_path: Path, **options: Any) -> Ensemble:
    return Ensemble(on="sim", results=tmp_path, **options)


def test_every_kind_of_fault_has_a_method_that_hides_no_other() -> None:
    assert {kind_of(word).name for word in method_names()} == set(KINDS)  # type: ignore[union-attr]
    assert all(KINDS[name].heals for name in STATE_WORDS.values())
    assert not set(method_names()) & set(vars(Ensemble))


def test_hosts_are_for_zookeeper_only(tmp_path: Path) -> None:
    with standing(tmp_path, min_acked=0) as cluster, pytest.raises(BadInput, match="an ensemble on sim has no hosts"):
        cluster.hosts  # noqa: B018
    with pytest.raises(BadInput, match="--on sim was asked for"):
        standing(tmp_path, zookeeper="3.9.4")
    with pytest.raises(BadInput, match="lunch: this is neither a version"):
        Ensemble(zookeeper="lunch", results=tmp_path)


def test_what_was_acknowledged_survives_and_the_folder_can_be_judged_again(tmp_path: Path) -> None:
    with standing(tmp_path, keep_data=True) as cluster:
        with cluster.client() as client:
            client.create("/a", b"1")
            cluster.power_cut("all")
            assert not any(cluster.alive(node) for node in cluster.nodes)
            cluster.restart("all")
            assert client.get("/a").value == b"1"
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS
    assert verdict.property("replay equality").checked > 0
    folder = cluster.folder
    assert folder is not None
    assert judge(folder.path).verdict is Outcome.PASS
    assert [line["do"] for line in folder.lines("faults.jsonl") if line["type"] == "inject"] == ["power-cut", "restart"]
    ops = list(folder.lines("ops.jsonl"))
    assert [(line["type"], line.get("op"), line.get("outcome")) for line in ops] == [
        ("invoke", "create", None), ("complete", None, "ok"), ("invoke", "get", None), ("complete", None, "ok"),
    ]  # fmt: skip
    assert [step.do for step in load(folder.file("scenario.toml")).faults] == ["power-cut", "restart"]


def test_the_same_seed_and_the_same_calls_leave_the_same_bytes(tmp_path: Path) -> None:
    def once() -> dict[str, bytes]:
        with standing(tmp_path, seed=7) as cluster, cluster.client() as client:
            client.create("/a", b"1")
            with cluster.partitioned("leader"):
                cluster.sleep(1.5)
            client.set("/a", b"2")
        assert cluster.folder is not None
        return {path.name: path.read_bytes() for path in sorted(cluster.folder.path.rglob("*.jsonl"))}

    first = once()
    assert len(first) > 4
    assert once() == first


def test_a_fault_lasts_as_long_as_its_block_also_in_the_scenario_file(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster, cluster.client() as client:
        client.create("/a")
        before = cluster.until_established()
        with cluster.partitioned("leader") as cut:
            assert cut.nodes == [before]
            cluster.until(lambda: cluster.leader not in (before, None))
            assert not cut.healed
        assert cut.healed
        cluster.until_converged()
        assert cluster.finish().verdict is Outcome.PASS
    assert cluster.folder is not None
    (step,) = load(cluster.folder.file("scenario.toml")).faults
    assert step.lasts is not None
    assert step.lasts > 0.1


def test_a_fault_with_a_time_heals_during_a_wait(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster, cluster.client() as client:
        client.create("/a")
        sleeper = cluster.pause("follower", lasts=1.0)
        cluster.sleep(0.5)
        assert not sleeper.healed
        cluster.sleep(0.6)
        assert sleeper.healed


def test_a_wait_ends_when_the_state_has_come(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster:
        cluster.crash("leader", lasts=1.0)
        waited = cluster.wait("all", state="serves")
        assert waited.healed
        assert cluster.leader is not None
        assert all(map(cluster.alive, cluster.nodes))
        before = cluster.now
        with pytest.raises(FaultError, match="the state did not come in time"):
            cluster.wait("leader", state="down", within=2)
        assert 2 <= cluster.now - before < 3


def test_until_settled_waits_for_a_crash_point(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster, cluster.client(node=1) as client:
        client.create("/a")
        armed = cluster.crash_at("follower", point="after-sync:TXN")
        pending = client.submit(Set("/a", b"1"))
        armed.until_settled()
        assert not cluster.alive(armed.nodes[0])
        pending.outcome()
        cluster.heal()
        assert len(cluster.status()) == 3


def test_the_three_outcomes_are_told_apart(tmp_path: Path) -> None:
    with standing(tmp_path, min_acked=0) as cluster, cluster.client(timeout=0.5) as client:
        assert isinstance(client.submit(Set("/no", b"")).outcome(), Failed)
        with pytest.raises(Failed, match="there is no znode /no") as refused:
            client.get("/no")
        assert refused.value.error == "no node"
        assert client.create("/a", b"1") == Done(zxid=(1, 2), version=0, path="/a")  # 1:1 ordered the refusal
        assert client.exists("/a")
        assert client.children("/") == ["a"]
        with cluster.paused("all"), pytest.raises(Unknown):
            client.set("/a", b"2")
        assert not issubclass(Unknown, Failed)
        assert not issubclass(Failed, Unknown)
        assert not issubclass(Failed, (OSError, LookupError, ValueError))


def test_requests_may_be_outstanding_together_and_are_answered_in_order(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster, cluster.client() as client:
        client.create("/a")
        pending = [client.submit(Set("/a", b"%d" % number)) for number in range(50)]
        last = client.submit(Get("/a"))
        assert not last.done
        assert last.result().value == b"49"
        assert all(each.done for each in pending)


def test_a_defect_is_found_without_an_assertion(tmp_path: Path) -> None:
    """The only follower acknowledges a write and loses it. Then it elects a leader with the third node."""
    with standing(tmp_path, defect="ack-before-sync") as cluster:
        leader = cluster.until_established()
        with cluster.client(node=leader) as client:
            client.create("/a")
            cluster.until_converged()
            cluster.crash("follower", name="Third")
            dying = cluster.crash_at("follower", name="Follower", point="before-sync:TXN")
            client.set("/a", b"1")
            dying.until_settled()
            cluster.crash(leader)
            cluster.restart(["Follower", "Third"])
            cluster.until_established()
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.VIOLATION
    assert verdict.property("durability").verdict is Judgement.VIOLATION
    assert cluster.folder is not None
    assert list(cluster.folder.file("data").iterdir())  # kept to look into


def test_the_verdict_without_any_write_is_unknown(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster:
        pass
    assert cluster.verdict is not None
    assert cluster.verdict.verdict is Outcome.UNKNOWN
    assert "0 writes were acknowledged" in " ".join(cluster.verdict.reasons)


def test_an_idle_ensemble_is_unknown_because_nothing_was_written_and_no_scenario_is_named(tmp_path: Path) -> None:
    with standing(tmp_path, min_acked=0) as cluster:
        pass
    assert cluster.verdict is not None
    assert cluster.folder is not None
    assert cluster.verdict.reasons == ["nothing was written, so nothing could be judged"]
    shown = StringIO()
    terminal.show(cluster.folder, Console(file=shown, width=120))
    assert "Nothing was written, so nothing could be judged" in shown.getvalue()
    assert "the scenario expects" not in shown.getvalue()


def test_an_interrupted_ensemble_is_judged_and_sealed_and_run_json_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    cluster = standing(tmp_path)

    def use() -> None:
        with cluster:
            cluster.client()
            monkeypatch.setattr(cluster._deployment.cluster, "close", lambda ask=True: asked.append(ask) or [])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()
    assert asked == [False]  # the nodes are killed
    with pytest.raises(ValueError, match="closed"):
        cluster._sessions[0].get("/a")
    assert cluster.verdict is not None
    assert cluster.verdict.verdict is Outcome.UNKNOWN
    assert cluster.folder is not None
    assert cluster.folder.read_run()["outcome"] == "interrupted"
    assert (
        judge(cluster.folder.path).reasons == cluster.verdict.reasons
    )  # as `zab verify` does, which needs the manifest


def test_an_ensemble_that_is_interrupted_while_it_starts_is_judged_and_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_phases: RunPhases) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunPhases, "start_ensemble", interrupted)
    cluster = standing(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        cluster.__enter__()
    assert cluster.folder is not None
    assert cluster.folder.read_run()["outcome"] == "interrupted"
    assert cluster.folder.read_verdict() == cluster.verdict
    assert cluster.folder.file("manifest.json").exists()


def test_an_ensemble_that_is_stopped_at_once_is_not_judged(tmp_path: Path) -> None:
    cluster = standing(tmp_path).__enter__()
    cluster.abandon(Forced())
    assert cluster.verdict is None
    assert cluster.folder is not None
    assert cluster.folder.read_run()["outcome"] == "interrupted"


def test_a_harness_that_failed_is_noticed_by_a_wait_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> None:
        raise HarnessError("nobody watches the nodes")

    with standing(tmp_path) as cluster:
        monkeypatch.setattr(cluster._deployment, "check", check)
        with pytest.raises(HarnessError, match="nobody watches"):
            cluster.sleep(0.1)
    assert cluster.verdict is not None
    assert cluster.verdict.verdict is Outcome.HARNESS_ERROR
    assert cluster.folder is not None
    assert "nobody watches the nodes" in cluster.folder.read_run()["outcome"]


def test_a_release_that_does_not_exist_is_refused_before_a_node_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it exists is known when it was looked for; a scenario's releases are fetched before the start."""

    def prepare(_: SimBackend, scenario: Scenario, options: RunOptions, display: Display) -> None:
        if any(step.params["release"] != "new" for step in scenario.faults):
            raise BadInput("there is no such release. Did you mean 3.9.4?")

    monkeypatch.setattr(SimBackend, "abilities", SimBackend.abilities | {Ability.RELEASES})
    monkeypatch.setattr(SimBackend, "release", lambda _, named: named)
    monkeypatch.setattr(SimBackend, "prepare", prepare)
    with standing(tmp_path, min_acked=0) as cluster:
        for kind, nodes in (("upgrade", "one"), ("restart", "node-2")):
            words = rf"{kind} with release = 3\.9\.9: there is no such release\. Did you mean 3\.9\.4\?"
            with pytest.raises(BadInput, match=words):
                getattr(cluster, kind)(nodes, release="3.9.9")
        assert all(cluster.alive(node) for node in cluster.nodes)
    assert cluster.folder is not None
    assert not cluster.folder.file("faults.jsonl").exists(), "no fault is on record"


def test_clients_connect_to_the_nodes_in_turn(tmp_path: Path) -> None:
    with standing(tmp_path, min_acked=0) as cluster:
        assert [cluster.client().node for _ in range(4)] == [1, 2, 3, 1]
        assert cluster.client(node=3).node == 3


def test_clients_that_are_opened_in_several_threads_have_different_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[int] = []

    def line(number: int, node: int, timeout: float) -> SimpleNamespace:
        numbers.append(number)
        threading.Event().wait(0.01)  # until the others have asked, too
        return SimpleNamespace(close=lambda: None)

    with standing(tmp_path) as cluster:
        monkeypatch.setattr(cluster._deployment, "line", line)
        threads = [threading.Thread(target=cluster.client) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert numbers == [1, 2, 3, 4]


def test_another_thread_heals_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standing(tmp_path, min_acked=0) as cluster:
        due: list[float] = []
        monkeypatch.setattr(cluster._scheduler, "due", due.append)
        thread = threading.Thread(target=cluster.advance_faults)
        thread.start()
        thread.join()
        assert due == []
        cluster.advance_faults()
        assert len(due) == 1


def test_an_error_of_the_caller_does_not_hide_the_verdict(tmp_path: Path) -> None:
    def careless(cluster: Ensemble) -> None:
        with cluster, cluster.client() as client:
            client.create("/a")
            1 / 0  # noqa: B018

    cluster = standing(tmp_path)
    with pytest.raises(ZeroDivisionError):
        careless(cluster)
    assert cluster.verdict is not None
    assert cluster.verdict.verdict is Outcome.PASS


def test_run_json_says_what_was_run(tmp_path: Path) -> None:
    with standing(tmp_path, nodes=5, seed=9, name="mine", record=False, command="do it again") as cluster:
        assert cluster.nodes == [1, 2, 3, 4, 5]
    assert cluster.folder is not None
    facts = json.loads(cluster.folder.file("run.json").read_text())
    assert (facts["scenario"], facts["seed"], facts["nodes"], facts["backend"]) == ("mine", 9, 5, "sim")
    assert (facts["record"], facts["outcome"], facts["command"]) == (False, "finished", "do it again")


def test_all_mistakes_in_the_arguments_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as told:
        Ensemble(on="moon", nodes=0, timing={"heartbeat": 3}, defect="none", results=tmp_path)
    words = str(told.value)
    for part in ("no backend is called 'moon'", "nodes", "'heartbeat' is no key", "defect"):
        assert part in words
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("word", "arguments", "options", "words"),
    [
        ("crash", (), {}, "crash: the key target is missing"),
        ("crash", ("boss",), {}, "'boss' is no target. Allowed: leader"),
        ("crash", (4,), {}, "there is no node-4: the ensemble has 3 nodes"),
        (
            "latency",
            ("one",),
            {"delay": 3},
            "'delay' is no key of latency. Allowed: target, lasts, name, ms, jitter_ms,",
        ),
        ("latency", ("one",), {"delay": 3}, "the key ms is missing"),
        ("crash", ("one",), {"keep_cache": True}, "Did you mean keeps_cache?"),
        ("partition", (), {"shape": "circle"}, "'circle'"),
        ("restart", ("all",), {"lasts": 3.0}, "over at once"),
        ("crash", ("one",), {"at": 5}, "crash: at belongs to a schedule; here it happens now"),
        ("crash", ("one",), {"do": "pause"}, "crash: do belongs to a schedule; here it is what is called"),
        ("crash", ("one",), {"until": "Served"}, "crash: until belongs to a schedule"),
        ("crash", ("one",), {"awaits": "Written"}, "crash: awaits belongs to a schedule"),
    ],
)
def test_an_invalid_fault_argument_raises_with_what_is_allowed(
    tmp_path: Path, word: str, arguments: tuple[Any, ...], options: dict[str, Any], words: str
) -> None:
    with standing(tmp_path) as cluster:
        with pytest.raises(BadInput) as told:
            getattr(cluster, word)(*arguments, **options)
        assert words in str(told.value)
        assert not cluster.faults


def test_an_unknown_method_raises_with_a_suggestion(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster, pytest.raises(AttributeError, match=r"Did you mean .*partition"):
        cluster.partitionned("leader")


def test_a_fault_that_hits_no_node_raises_in_the_calling_line(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster:
        with pytest.raises(FaultError, match="no node is down"):
            cluster.restart("all")
        with cluster.client() as client:
            client.create("/a")
    assert cluster.verdict is not None
    assert cluster.verdict.verdict is Outcome.UNKNOWN  # a fault that did not happen is no test that was passed


def test_a_fault_that_takes_no_effect_raises_in_the_calling_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_nodes: object) -> None:
        raise ClusterError("nobody may kill it")

    with standing(tmp_path) as cluster:
        with monkeypatch.context() as patched:
            patched.setattr(cluster._deployment.cluster, "kill_all", refuse)
            with pytest.raises(FaultError, match="crash did not take effect: node 2 killed; nobody may kill it"):
                cluster.crash(2)
        assert cluster.alive(2)


def test_a_fault_that_is_over_at_once_is_no_context_manager(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster:
        cluster.crash("one")
        with pytest.raises(FaultError, match="over at once"), cluster.restart("all"):
            pass


def test_a_wait_that_times_out_says_what_did_not_happen(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster:
        cluster.crash("majority")
        with pytest.raises(TimeoutError, match=r"no leader was established \(after 2 s\)"):
            cluster.until_established(timeout=2.0)
        with pytest.raises(TimeoutError, match="the nodes did not converge: no answer from node-"):
            cluster.until_converged(timeout=2.0)


def test_a_client_raises_after_the_ensemble_has_ended(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster:
        client = cluster.client()
        client.create("/a")
    with pytest.raises(ValueError, match="closed"):
        client.get("/a")


def test_dir_lists_the_fault_methods(tmp_path: Path) -> None:
    with standing(tmp_path) as cluster:
        assert {"power_cut", "partitioned", "client", "until_converged"} <= set(dir(cluster))
        assert isinstance(cluster.folder, RunFolder)


def test_the_times_of_a_scenario_that_was_written_after_use_by_hand_are_milliseconds() -> None:
    fault = '[[fault]]\nat = 9.326\ndo = "crash"\ntarget = "one"\n'
    scenario = parse(f'[scenario]\nname = "up"\n{fault}')
    record = FaultRecord(1, scenario.faults[0], [1], Confirmation(True, {}), lasted=8.995)
    assert "duration = 19.321\n" in scenario_text(scenario, [record])
