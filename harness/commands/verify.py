"""`zab verify`: judge stored runs again."""

from pathlib import Path

import msgspec

from harness import ci, report
from harness import results as stored
from harness.commands.output import console_for, print_json
from harness.judgement import judge
from model.verdict import worst


def verify_command(runs: list[str], *, results: Path, junit: Path | None, json: bool, quiet: bool) -> int:
    """Judge each, write its verdict.json anew, show it. The exit code is the worst verdict's. Raises BadInput."""
    ci.prepare(junit)
    folders = [stored.find(results, name) for name in runs]  # a wrong name is told before the first is judged
    console = console_for(json=json)
    verdicts, cases = [], []
    for folder in folders:
        verdict = judge(folder.path)
        folder.file("verdict.json").write_bytes(verdict.to_json())
        report.show(folder, console, brief=quiet)
        verdicts.append(verdict)
        cases.append(ci.case_of(folder, verdict))
    overall = worst(verdict.verdict for verdict in verdicts)
    if len(folders) > 1:
        console.print(f"\n{len(folders)} runs: {overall}", highlight=False)
    if json:
        answers = [
            {"folder": str(folder.path), **msgspec.to_builtins(verdict)}
            for folder, verdict in zip(folders, verdicts, strict=True)
        ]
        print_json({"verdict": overall, "exit": overall.exit_code, "runs": answers})
    ci.publish("zab verify", cases, junit)
    return overall.exit_code
