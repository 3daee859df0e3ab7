"""A replicated key-value store whose node 1 always leads, for tests of what nodes record (docs/backends.md).

    python sequencer_store.py NODE LISTEN CLIENT TRACE BUG PEER=ADDRESS...

The leader numbers the writes in a log, and answers one when a majority has it. Followers fetch the log and deliver what the
leader has committed. They pass their clients' requests on to the leader. Logs are kept in memory only, so only followers may
end. Clients can't see any of the bugs, which are in node 2, at transaction 20, or ("early") in the leader.
"""

import json
import os
import socket
import socketserver
import sys
import threading
import time

FETCH_SECONDS = 0.02


class Node:
    def __init__(self, number: int, trace: str, bug: str, peers: dict[int, str]) -> None:
        self.leader = peers.get(1)  # its address; None at the leader
        self.number, self.bug = number, bug
        self.trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.log: list[list[str]] = []
        self.held = dict.fromkeys([number, *peers], 0)  # of the leader: how many transactions each node has
        self.delivered = 0
        self.state: dict[str, str] = {}
        self.moved = threading.Condition()
        if self.leader is None:
            self.record("established", epoch=1, last=[0, 0])

    def record(self, event: str, **fields: object) -> None:
        os.write(self.trace, json.dumps({"time": time.time_ns(), "event": event, **fields}).encode() + b"\n")

    def deliver(self, upto: int) -> None:
        while self.delivered < upto:
            key, value = self.log[self.delivered]
            self.delivered += 1
            bug = self.bug if (self.number, self.delivered) == (2, 20) else ""
            self.state[key] = "other" if bug == "differs" else value
            if bug == "skips":
                continue
            data = "changed" if bug == "changes" else f"{key} = {value}"
            zxid = "1:20" if bug == "misrecords" else [1, self.delivered]
            self.record("deliver", zxid=zxid, data=data, state=json.dumps(self.state, sort_keys=True))

    def append(self, entries: list[list[str]]) -> None:
        for key, value in entries:
            self.log.append([key, value])
            self.record("accept", zxid=[1, len(self.log)], data=f"{key} = {value}")

    def answer(self, question: dict) -> dict:
        """Answer a follower or a client."""
        if self.leader is not None:
            return ask(self.leader, question)
        with self.moved:
            match question["op"]:
                case "fetch":
                    self.held[question["node"]] = question["held"]
                    self.moved.notify_all()
                    return {"entries": self.log[question["held"] :], "committed": self.delivered}
                case "set":
                    entry = [question["key"], question["value"]]
                    self.record("broadcast", zxid=[1, len(self.log) + 1], data=" = ".join(entry))
                    self.append([entry])
                    mine = self.held[1] = len(self.log)
                    if self.bug == "early":
                        self.deliver(mine)
                    if not self.moved.wait_for(lambda: self.majority() >= mine, 2.0):
                        return {"error": "no majority"}
                    self.deliver(self.majority())
                    return {}
                case _:
                    return {"value": self.state.get(question["key"])}

    def majority(self) -> int:
        return sorted(self.held.values())[(len(self.held) - 1) // 2]

    def follow(self, leader: str) -> None:
        while True:
            time.sleep(FETCH_SECONDS)
            try:
                found = ask(leader, {"op": "fetch", "node": self.number, "held": len(self.log)})
            except OSError:
                continue
            self.append(found["entries"])
            self.deliver(min(found["committed"], len(self.log)))


def ask(address: str, question: dict) -> dict:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 2.0) as connection, connection.makefile("rwb") as stream:
        stream.write(json.dumps(question).encode() + b"\n")
        stream.flush()
        line = stream.readline()
    if not line.endswith(b"\n"):
        raise ConnectionError("no answer")
    return json.loads(line)


def serve(node: Node, address: str) -> None:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                try:
                    answer = node.answer(json.loads(line))
                except OSError as error:
                    answer = {"error": str(error)}
                self.wfile.write(json.dumps(answer).encode() + b"\n")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Take no notice: the other side is gone."""

    host, _, port = address.rpartition(":")
    threading.Thread(target=Server((host, int(port)), Handler).serve_forever, daemon=True).start()


if __name__ == "__main__":
    number, listen, client, trace, bug, *others = sys.argv[1:]
    peers = {int(peer): address for peer, _, address in (other.partition("=") for other in others)}
    node = Node(int(number), trace, bug, peers)
    serve(node, listen)
    serve(node, client)
    if node.leader is None:
        threading.Event().wait()
    else:
        node.follow(node.leader)
