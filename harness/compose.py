"""The services of docker-compose.yml beside the nodes: prepare, keep and seal.

    python -m zab_chaos.harness.compose prepare|keep|seal

`prepare` writes what the harness writes for a run: keys, configurations, toxiproxy's links, run.json. `keep` replaces the
harness while the ensemble is running: it records when a leader is established and, at the end, whether the nodes had
converged, so that `zab verify` can judge the folder like that of any run. `seal` stops after the nodes, and writes the
folder's manifest.
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
from zab_chaos.faults.scenario import Expect, Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.containers.ensemble import CLIENT, CONTROL, LISTEN
from zab_chaos.harness.backends.containers.resources import DATA, INSIDE
from zab_chaos.harness.backends.containers.stage import FIRST_LINK, PROXY
from zab_chaos.harness.backends.ensemble_state import disagreement, leader_of
from zab_chaos.harness.backends.processes.life import write_config
from zab_chaos.harness.results.run_folder import PARTS, RunFolder, write_atomically
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.phases import FINISHED
from zab_chaos.harness.runs.run import initial_facts, utc
from zab_chaos.model import manifest
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.core.digest import NEWEST
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError
from zab_chaos.node.net.keys import KeyFiles

NODES = (1, 2, 3)  # as docker-compose.yml has them
ANSWER_SECONDS = 1.0
LOOK_SECONDS = 0.2
CONVERGES_SECONDS = 20.0  # less than docker-compose.yml lets the keeper have
SOURCE = """[scenario]
name = "compose"
about = "An ensemble that is used and broken by hand."
record = false
"""
SCENARIO = Scenario(
    name="compose", about="An ensemble that is used and broken by hand.", record=False, expect=Expect(min_acked=0)
)


def prepare(folder: RunFolder) -> None:
    """Write keys, configurations and run.json, unless they exist already."""
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
    write_atomically(folder.file("scenario.toml"), SOURCE)
    options = RunOptions(seed=0, results=folder.path, command="docker-compose up", record=False, on="containers")
    folder.milestone("started", seed=0)
    folder.write_run(
        initial_facts(SCENARIO, options, folder, registry.find(options.on))
    )  # last: with it everything is there


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
    """Queries the nodes, and updates run.json and harness.jsonl."""

    def __init__(self, folder: RunFolder) -> None:
        pair = keys.load(keys.files_in(folder.file("config")).control)
        self._folder = folder
        self._clients = {node: ControlClient(f"node-{node}:{CONTROL}", pair) for node in NODES}

    def keep(self, over: threading.Event) -> None:
        """Watch until `over` is set, then wait for the nodes to converge."""
        self._outcome("unfinished")
        while not over.is_set():
            answers = self._ask(NODES)
            leader = leader_of(answers, len(NODES))
            if leader is not None:
                self._folder.milestone("established", leader=leader, epoch=answers[leader].epoch)
                break
            over.wait(LOOK_SECONDS)
        over.wait()
        self._converge()
        for client in self._clients.values():
            client.close()

    def _converge(self) -> None:
        begun = time.monotonic()
        why = disagreement(answers := self._ask(NODES), NODES)
        self._folder.milestone("safety-ended")
        while why is not None and time.monotonic() - begun < CONVERGES_SECONDS:
            time.sleep(LOOK_SECONDS)
            why = disagreement(answers := self._ask(NODES), NODES)
        if why is None:
            zxid = answers[NODES[0]].delivered
            self._folder.milestone("converged", zxid=zxid, seconds=time.monotonic() - begun)
            self._outcome(FINISHED)
        else:
            self._outcome(f"it was stopped before the nodes had converged: {why}")

    def _outcome(self, words: str) -> None:
        facts = self._folder.read_run()
        self._folder.write_run({**facts, "outcome": words, "ended": utc() if words != "unfinished" else None})

    def _ask(self, nodes: Iterable[int]) -> dict[int, Status]:
        answers = {}
        for node in nodes:
            try:
                answers[node] = msgspec.convert(self._clients[node].call("status", ANSWER_SECONDS), Status)
            except ControlError:
                continue
        return answers


def seal(folder: RunFolder, over: threading.Event) -> None:
    """Remove the manifest while the ensemble is running, and write it at the end."""
    folder.file(manifest.NAME).unlink(missing_ok=True)
    over.wait()
    manifest.seal(folder.path)


def _on_sigterm() -> threading.Event:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    return over


def main(arguments: list[str]) -> int:
    folder = RunFolder(Path(INSIDE))
    match arguments:
        case ["prepare"]:
            prepare(folder)
        case ["keep"]:
            Keeper(folder).keep(_on_sigterm())
        case ["seal"]:
            seal(folder, _on_sigterm())
        case _:
            sys.stderr.write("usage: python -m zab_chaos.harness.compose prepare|keep|seal\n")
            return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
