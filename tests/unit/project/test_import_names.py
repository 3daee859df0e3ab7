"""Everything is imported as zab_chaos.*: by a bare name (`import node`) a module would be loaded a second time."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMES = ("node", "model", "faults", "harness", "pipeline")
DOTTED = re.compile(rf"({'|'.join(NAMES)})\.(\w+)[\w.]*(:\w+)?")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("line", ["import {}", "import {}.sub as sub", "from {} import sub", "from {}.sub import it"])
def test_ruff_forbids_the_bare_names(name: str, line: str) -> None:
    assert "TID251" in found_by_ruff(line.format(name))
    assert "TID251" not in found_by_ruff(line.format(f"zab_chaos.{name}"))


def found_by_ruff(line: str) -> set[str]:
    """Return the ruff rules that a file with this line breaks, with the project's configuration."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=json", "--stdin-filename=tests/it.py", "-"],
        input=f"{line}\n", cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {one["code"] for one in json.loads(done.stdout)}


@pytest.mark.slow
def test_no_string_names_a_module_by_its_bare_name() -> None:
    """Strings for importlib or monkeypatch, for example, which ruff does not check."""
    files = [
        path for folder in (*NAMES, "tests", "benchmarks", "mutants", "docs") for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(files) > 300
    assert [f"{path}: {text}" for path in files for text in bare_names(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("package", "rest"), [("harness", "machine.doctor:examine"), ("faults", "defects:ANY"), ("node", "core")]
)
def test_a_string_that_names_a_module_is_found(package: str, rest: str) -> None:
    name = f"{package}.{rest}"
    assert list(bare_names(f"import_module({name!r})")) == [name]
    assert list(bare_names(f"import_module('zab_chaos.{name}')")) == []


def bare_names(source: str) -> Iterator[str]:
    """Return the strings in a program that are the bare name of a module, or of something in it."""
    for found in ast.walk(ast.parse(source)):
        if isinstance(found, ast.Constant) and isinstance(found.value, str):
            match = DOTTED.fullmatch(found.value)
            if match and any((ROOT / match[1] / child).exists() for child in (match[2], f"{match[2]}.py")):
                yield found.value
