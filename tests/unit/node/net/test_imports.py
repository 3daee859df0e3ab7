"""A node must not import slow modules: imports are a large part of its start-up time."""

import subprocess
import sys


def test_a_node_starts_without_asyncio() -> None:
    told = "import sys, zab_chaos.node.__main__; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
