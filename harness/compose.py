"""The services of docker-compose.yml that are not nodes: prepare, keep and seal.

    python -m zab_chaos.harness.compose prepare|keep|seal

`prepare` writes the files that the harness writes for a run: keys, configurations, toxiproxy's links, run.json. `keep` replaces
the harness while the ensemble is running. It records when a leader is established and, at the end, whether the nodes have
converged, so that `zab verify` can judge the folder like that of any run. `seal` ends after the nodes, and writes the manifest
of the folder.
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from zab_chaos.faults.cluster import Status
from zab_chaos.faults.scenario import parse
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.containers.deployment import FIRST_LINK, PROXY
from zab_chaos.harness.backends.containers.ensemble import CLIENT, CONTROL, LISTEN
from zab_chaos.harness.backends.containers.resources import DATA, INSIDE
from zab_chaos.harness.backends.ensemble_state import disagreement, leader_of
from zab_chaos.harness.backends.processes.life import write_config
from zab_chaos.harness.results.run_folder import PARTS, RunFolder, write_atomically
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.phases import FINISHED
from zab_chaos.harness.runs.run import UNFINISHED, initial_facts, utc
from zab_chaos.model import manifest
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.core.digest import NEWEST
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError
from zab_chaos.node.net.keys import KeyFiles

NODES = (1, 2, 3)  # the nodes of docker-compose.yml
ANSWER_SECONDS = 1.0  # timeout of a status request
POLL_SECONDS = 0.2
CONVERGES_SECONDS = 20.0  # less than the time that docker-compose.yml gives the keeper to end
SCENARIO = parse("""[scenario]
name = "compose"
about = "An ensemble that is used and broken by hand."
record = false

[expect]
min_acked = 0
""")


def prepare(folder: RunFolder) -> None:
    """Write keys, configurations, toxiproxy's links and run.json. Do nothing if run.json exists."""
    if folder.file("run.json").exists():
        return
    for part in PARTS:
        folder.file(part).mkdir(exist_ok=True)
    files = keys.files_in(folder.file("config"))
    for path in files:
        if not path.exists():
            keys.create(path)
    pairs = [(source, target) for source in NODES for target in NODES if source != target]
    links = {pair: FIRST_LINK + number for number, pair in enumerate(pairs)}
    for node in NODES:
        peers = {target: f"{PROXY}:{port}" for (source, target), port in links.items() if source == node}
        write_config(folder.file("config", f"node-{node}.json"), _config(node, peers, files))
    proxies = [
        {"name": f"{i}-{j}", "listen": f"0.0.0.0:{port}", "upstream": f"node-{j}:{LISTEN}", "enabled": True}
        for (i, j), port in links.items()
    ]
    write_atomically(folder.file("config", "toxiproxy.json"), json.dumps(proxies, indent=2) + "\n")
    write_atomically(folder.file("scenario.toml"), SCENARIO.source)
    options = RunOptions(seed=0, results=folder.path, command="docker-compose up", record=False, on="containers")
    folder.milestone("started", seed=0)
    # run.json is written last, because its existence means that everything is prepared.
    folder.write_run(initial_facts(SCENARIO, options, folder, registry.find(options.on)))


def _config(node: int, peers: dict[int, str], files: KeyFiles) -> NodeConfig:
    return NodeConfig(
        id=node,
        cluster="compose",
        listen=f"0.0.0.0:{LISTEN}",
        client=f"0.0.0.0:{CLIENT}",
        control=f"0.0.0.0:{CONTROL}",
        peers=peers,
        link_keys=str(files.links),
        control_keys=str(files.control),
        client_keys=str(files.clients),
        data=DATA,
        trace=f"{INSIDE}/trace",
        digest=NEWEST,
    )


class Keeper:
    """The command `keep`: asks the nodes for their status, and updates run.json and harness.jsonl."""

    def __init__(self, folder: RunFolder) -> None:
        pair = keys.load(keys.files_in(folder.file("config")).control)
        self._folder = folder
        self._clients = {node: ControlClient(f"node-{node}:{CONTROL}", pair) for node in NODES}

    def keep(self, ended: threading.Event) -> None:
        """Record the first leader. When `ended` is set, wait for the nodes to converge and record the outcome."""
        self._write_outcome(UNFINISHED)
        while not ended.is_set():
            answers = self._ask(NODES)
            leader = leader_of(answers, len(NODES))
            if leader is not None:
                self._folder.milestone("established", leader=leader, epoch=answers[leader].epoch)
                break
            ended.wait(POLL_SECONDS)
        ended.wait()
        self._await_convergence()
        for client in self._clients.values():
            client.close()

    def _await_convergence(self) -> None:
        begun = time.monotonic()
        why = disagreement(answers := self._ask(NODES), NODES)
        self._folder.milestone("safety-ended")
        while why is not None and time.monotonic() - begun < CONVERGES_SECONDS:
            time.sleep(POLL_SECONDS)
            why = disagreement(answers := self._ask(NODES), NODES)
        if why is None:
            zxid = answers[NODES[0]].delivered
            self._folder.milestone("converged", zxid=zxid, seconds=time.monotonic() - begun)
            self._write_outcome(FINISHED)
        else:
            self._write_outcome(f"it was stopped before the nodes had converged: {why}")

    def _write_outcome(self, outcome: str) -> None:
        facts = self._folder.read_run()
        ended = utc() if outcome != UNFINISHED else None
        self._folder.write_run({**facts, "outcome": outcome, "ended": ended})

    def _ask(self, nodes: Iterable[int]) -> dict[int, Status]:
        answers = {}
        for node in nodes:
            try:
                answers[node] = msgspec.convert(self._clients[node].call("status", ANSWER_SECONDS), Status)
            except ControlError:
                continue
        return answers


def seal(folder: RunFolder, ended: threading.Event) -> None:
    """Remove the manifest while the ensemble is running, and write it when `ended` is set."""
    folder.file(manifest.NAME).unlink(missing_ok=True)
    ended.wait()
    manifest.seal(folder.path)


def _event_of_sigterm() -> threading.Event:
    """Return an event that SIGTERM sets."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    return ended


def main(arguments: list[str]) -> int:
    folder = RunFolder(Path(INSIDE))
    match arguments:
        case ["prepare"]:
            prepare(folder)
        case ["keep"]:
            Keeper(folder).keep(_event_of_sigterm())
        case ["seal"]:
            seal(folder, _event_of_sigterm())
        case _:
            sys.stderr.write("usage: python -m zab_chaos.harness.compose prepare|keep|seal\n")
            return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
