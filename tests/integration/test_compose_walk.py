"""The commands of docs/containers.md for docker-compose.yml, run exactly as printed there, in this checkout."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from zab_chaos.harness.backends.containers import engine

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]


def walk() -> str:
    found = re.search(
        r"<!-- walk: compose -->\n```\n(.*?)```\n<!-- walked -->", (ROOT / "docs/containers.md").read_text(), re.DOTALL
    )
    assert found is not None
    return found[1]


def test_the_commands_of_the_page_work() -> None:
    try:
        engine.connect().close()
    except engine.EngineError as error:
        pytest.skip(str(error))
    for tool in ("docker", "docker-compose", "curl"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    shutil.rmtree(ROOT / "results" / "compose", ignore_errors=True)
    (ROOT / "results").mkdir(exist_ok=True)
    environment = {**os.environ, "COMPOSE_PROJECT_NAME": f"zab-walk-{os.getpid()}"}
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", walk()], cwd=ROOT, env=environment, capture_output=True, text=True
        )
    finally:
        down = subprocess.run(
            ["docker-compose", "down", "-v"], cwd=ROOT, env=environment, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello" in done.stdout  # node 2 has what was written at node 1
    assert "PASS  (exit 0)" in done.stdout
    assert down.returncode == 0, down.stderr
    lives = {path.name for path in ROOT.glob("results/compose/trace/*")}
    assert lives == {"node-1-1.jsonl", "node-2-1.jsonl", "node-3-1.jsonl", "node-3-2.jsonl"}
    shutil.rmtree(ROOT / "results" / "compose")
