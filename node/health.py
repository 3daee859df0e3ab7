"""Health check: `python -m zab_chaos.node.health CONFIG` asks whether this node knows an established leader.

It runs on the node's machine. Exit code 0: the node leads or follows an established epoch; 1: it does not, or does not
answer.
"""

import sys
from pathlib import Path

import msgspec

from zab_chaos.node.config import NodeConfig
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError

ANSWER_SECONDS = 3.0


def trouble(config: NodeConfig) -> str | None:
    """Return why the node can't serve clients, in words, or None if it can."""
    port = config.control.rpartition(":")[2]
    client = ControlClient(f"127.0.0.1:{port}", keys.load(config.control_keys))
    try:
        status = client.call("status", ANSWER_SECONDS)
    except ControlError as error:
        return str(error)
    finally:
        client.close()
    if status["established"]:
        return None
    return f"node {config.id} is {status['role']}, in {status['phase']}, and knows no established leader"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m zab_chaos.node.health CONFIG\n")
        return 2
    try:
        why = trouble(msgspec.json.decode(Path(arguments[0]).read_bytes(), type=NodeConfig))
    except (OSError, msgspec.DecodeError, keys.KeyFileError) as error:
        why = str(error)
    if why is not None:
        sys.stderr.write(f"{why}\n")
    return 0 if why is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
