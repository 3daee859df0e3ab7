"""docs/research.md: the code blocks of the page are run in order, as a reader would, but with fewer seeds.

The two that need Spark run in the test's process and on its session, whose start takes longer than they do.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from zab_chaos.model.oracle.oracle import judge

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "research.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SEEDS = ("1..500", "1..2")
ANALYZE, SPARK = "zab analyze ", "from pyspark"


@pytest.fixture
def zab(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `zab` is that of this checkout."""
    command = tmp_path / "bin" / "zab"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m zab_chaos.harness "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "SPARK_LOCAL_IP": "127.0.0.1"}


def run(language: str, code: str, folder: Path, env: dict[str, str]) -> str:
    command = ["bash", "-euc", code] if language == "sh" else [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_all_code_blocks_of_the_page_work(
    tmp_path: Path,
    zab: dict[str, str],
    spark: Any,
    analyze_here: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert sum(code.count(SEEDS[0]) for _, code in blocks) == 2
    study = tmp_path / "walk"
    study.mkdir()
    monkeypatch.chdir(study)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)

    def run_here(code: str) -> str:
        capsys.readouterr()
        if code.startswith(ANALYZE):
            assert analyze_here(*shlex.split(code.removeprefix(ANALYZE))) == 0
        else:
            exec(code.replace("study/", f"{study}/study/"))  # Spark's JVM is in another folder
        return "".join(capsys.readouterr())

    said = {}
    for language, code in blocks:
        on_spark = code.startswith((ANALYZE, SPARK))
        said[code] = run_here(code) if on_spark else run(language, code.replace(*SEEDS), study, zab)
    assert sum(code.startswith((ANALYZE, SPARK)) for code in said) == 2

    def told(words: str) -> str:
        return next(out for code, out in said.items() if words in code)

    assert re.search(r"kept +2 runs", told("zab explore"))
    assert Path(told("zab results").split("\n\n")[-1].split("\n")[1]).name == "report.html"
    assert "after" in told("zab results")
    assert (study / "study" / "comparison.html").is_file()
    assert re.search(r"in \d+ comparisons", told("zab analyze"))
    # The runs were recorded, but are replayed only with --replay: the verdicts are the oracle's.
    for line in (study / "study" / "verdicts.jsonl").read_text().splitlines():
        verdict = json.loads(line)
        assert verdict["properties"] == to_builtins(judge(Path(verdict["path"])).properties)
    with (study / "study" / "report.csv").open() as file:
        assert len(file.readlines()) == 1 + 4
    for words in ("import duckdb", "import pandas", "import SparkSession"):
        assert all(name in told(words) for name in ("before", "after")), told(words)
    medians = [
        float(row.split("│")[3]) for row in told("import duckdb").splitlines() if re.match(r"│ (before|after)", row)
    ]
    assert medians[1] > medians[0] + 0.5  # after: 0.8 s more of silence
