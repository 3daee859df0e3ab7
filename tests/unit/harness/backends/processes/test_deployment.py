"""The deployment of our own nodes without nodes and toxiproxy: ports, keys, and how the nodes are ended."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.processes.stale_files import is_locked
from zab_chaos.harness.backends.processes.zab_deployment import ZabDeployment
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.interrupt import Forced, Stopped
from zab_chaos.harness.machine.ports import lock_files
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.net import keys


class Bare(ZabDeployment):
    """Its nodes have no proxies. `asked`: how the nodes were ended, in order."""

    def __init__(self, folder: Path) -> None:
        (folder / "config").mkdir()
        super().__init__(RunFolder(folder), Scenario(name="bare"), None, record=False)
        self.asked: list[bool] = []
        self.stops_first = False

    def _proxies(self, listen: Mapping[int, str], stack: ExitStack) -> dict[tuple[int, int], str]:
        return {(i, j): listen[j] for i, j in self._pairs}

    def _build(self, stack: ExitStack) -> None:
        super()._build(stack)
        self.cluster.close = self.close_nodes  # type: ignore[method-assign]

    def close_nodes(self, ask: bool = True) -> list[int]:
        self.asked.append(ask)
        if self.stops_first and ask:
            raise Stopped
        return [2] if ask else []


def events(folder: Path) -> list[tuple[str, object]]:
    return [(line["event"], line.get("nodes")) for line in RunFolder(folder).lines("harness.jsonl")]


def test_ports_are_local_and_keys_locked_while_it_is_entered(tmp_path: Path) -> None:
    with Bare(tmp_path) as deployment:
        plan = deployment.cluster._plan
        addresses = [one for own in plan.addresses.values() for one in (own.listen, own.client, own.control)]
        assert len(set(addresses)) == 9
        assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}
        reserved = {int(path.stem) for path in lock_files()}
        assert {int(address.rpartition(":")[2]) for address in addresses} <= reserved
        files = keys.files_in(tmp_path / "config")
        assert all(is_locked(path) for path in files)
        assert deployment.client_keys == keys.load(files.clients)
    assert not {int(address.rpartition(":")[2]) for address in addresses} & {int(path.stem) for path in lock_files()}
    assert not any(path.exists() for path in files)


def test_nodes_that_did_not_end_when_they_were_asked_to_are_recorded(tmp_path: Path) -> None:
    with Bare(tmp_path) as deployment:
        pass
    assert deployment.asked == [True]
    assert events(tmp_path) == [("leftovers", [2])]


@pytest.mark.parametrize("kind", [Forced, Stopped])
def test_nodes_are_killed_at_once_after_an_interrupt(tmp_path: Path, kind: type[BaseException]) -> None:
    deployment = Bare(tmp_path)
    with pytest.raises(kind), deployment:
        raise kind
    assert deployment.asked == [False]


def test_nodes_are_killed_before_the_load_stops_after_an_interrupt(tmp_path: Path) -> None:
    with Bare(tmp_path) as deployment:
        deployment.on_interrupted()
        assert deployment.asked == [False]
    assert deployment.asked == [False, False]
    assert events(tmp_path) == []


def test_nodes_are_killed_when_an_interrupt_comes_while_they_end(tmp_path: Path) -> None:
    deployment = Bare(tmp_path)
    deployment.stops_first = True
    with pytest.raises(Stopped), deployment:
        pass
    assert deployment.asked == [True, False]
    assert not any(path.exists() for path in keys.files_in(tmp_path / "config"))


def test_a_watching_thread_that_failed_fails_the_run(tmp_path: Path) -> None:
    with Bare(tmp_path) as deployment:
        deployment.check()
        deployment.monitor.error = BrokenPipeError()
        with pytest.raises(HarnessError, match=r"the thread that watches the nodes failed: BrokenPipeError\(\)"):
            deployment.check()
