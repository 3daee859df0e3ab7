"""docs/teaching.md: its scenarios end as the page says, without the bug and with it."""

import re
from pathlib import Path

import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.errors import Exit
from zab_chaos.harness.results.run_folder import RunFolder

PAGE = Path(__file__).resolve().parents[2] / "docs" / "teaching.md"
SCENARIO = re.compile(r"Save this as `([\w.]+)`:\n\n```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def in_a_folder_with_the_scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in SCENARIO.findall(PAGE.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("scenario", "defect", "violated"),
    [
        ("fsync.toml", "ack-before-sync", {"durability", "committed stays", "quorum durability", "expected state"}),
        ("history.toml", "best-history-ignored", {"promises", "expected state"}),
    ],
)
def test_an_exercise_passes_and_with_the_bug_ends_as_the_page_says(
    scenario: str, defect: str, violated: set[str]
) -> None:
    assert f"zab run {scenario} --on sim --defect {defect} " in PAGE.read_text(encoding="utf-8")
    assert main(["run", scenario, "--on", "sim", "--quiet"]) == Exit.PASS
    assert main(["run", scenario, "--on", "sim", "--quiet", "--defect", defect]) == Exit.VIOLATION
    verdict = RunFolder(Path("results/latest").resolve()).read_verdict()
    assert verdict is not None
    assert violated <= set(verdict.violated)


def test_some_seeds_of_the_second_exercise_pass_with_the_bug() -> None:
    words = ["run", "history.toml", "--on", "sim", "-q", "--defect", "best-history-ignored", "--seed"]
    ends: set[int] = set()
    for seed in "1234567":
        ends.add(main([*words, seed]))
        if len(ends) > 1:
            break
    assert ends == {Exit.PASS, Exit.VIOLATION}
