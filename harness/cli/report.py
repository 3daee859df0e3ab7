"""`zab report`: write the report of one run, or of many runs, as a single HTML file."""

from pathlib import Path
from typing import Any

from rich.progress import track

from zab_chaos.harness.cli.output import messages, print_json, print_text
from zab_chaos.harness.errors import BadInput, Exit
from zab_chaos.harness.machine.files import output_file, writing
from zab_chaos.harness.report.console import say
from zab_chaos.harness.report.html.campaign import campaign_csv, read_campaign
from zab_chaos.harness.report.html.campaign_page import campaign_page, csv_path
from zab_chaos.harness.report.html.page import page
from zab_chaos.harness.report.html.run_data import RunData, read_run_data
from zab_chaos.harness.report.progress import Steps, display
from zab_chaos.harness.report.recording import core_or_reason
from zab_chaos.harness.results import run_folder as stored
from zab_chaos.harness.results.run_folder import RunFolder, write_atomically


def report_command(run: str, *, results: Path, out: Path | None, json: bool, pages: bool) -> int:
    """Write the report and print its path. The exit code is 0 whatever the run's verdict is.

    `run`: a run folder, or a folder with runs below it. `pages`: for a folder of runs, also write the report of each run that
    has none. Raises BadInput for a wrong run or file name, HarnessError if the file can't be written.
    """
    several = _folder_of_runs(run, results)
    if several is not None:
        return _report_campaign(several.resolve(), out, pages=pages, json=json)
    if pages:
        raise BadInput(f"--pages is for a folder of runs; {run} is one run. Leave it out.")
    folder = stored.find(results, run)
    file = output_file(out or folder.file("report.html")).absolute()
    data = write_report(folder, file)
    verdict, damages = data.judged.verdict, len(data.source.damages) + data.source.more
    if damages:
        what = "1 line or file" if damages == 1 else f"{damages} lines or files"
        say(messages(), f"{what} could not be read: see the report")
    answer = {"folder": str(folder.path), "verdict": None if verdict is None else verdict.verdict, "damages": damages}
    return _print_path(file, answer, json=json)


def _folder_of_runs(name: str, results: Path) -> Path | None:
    """Return the folder of runs that the name means, here or below the results; None if it means a single run, or nothing."""
    for place in (Path(name), results / name):
        if place.joinpath("run.json").exists():
            return None
        if any(stored.runs(place)):
            return place
    return None


def write_report(folder: RunFolder, file: Path, *, quiet: bool = False) -> RunData:
    """Write the page of one run, and return the data on it. `quiet`: do not show how far that is. Raises HarnessError."""
    with display(messages(), quiet=quiet) as screen:
        data = read_run_data(folder.path, core_or_reason(folder.read_run()), Steps(screen))
    with writing(file):
        write_atomically(file, page(data))
    return data


def _report_campaign(root: Path, out: Path | None, *, pages: bool, json: bool) -> int:
    file = output_file(out or root / "campaign.html").absolute()
    runs = read_campaign(root)
    if pages:
        _write_missing_reports([run.folder for run in runs])
    with writing(file):
        write_atomically(file, campaign_page(runs, str(root), file))
        write_atomically(csv_path(file), campaign_csv(runs))
    not_as_expected = sum(not run.as_expected for run in runs)
    return _print_path(file, {"folder": str(root), "runs": len(runs), "not_as_expected": not_as_expected}, json=json)


def _write_missing_reports(folders: list[Path]) -> None:
    """Write the report of every run that has none."""
    missing = [folder for folder in folders if not folder.joinpath("report.html").exists()]
    console = messages()
    for folder in track(missing, "reports", console=console, transient=True, disable=not console.is_terminal):
        write_report(RunFolder(folder), folder / "report.html", quiet=True)  # one bar is enough


def _print_path(file: Path, answer: dict[str, Any], *, json: bool) -> int:
    if json:
        print_json({"report": str(file), "bytes": file.stat().st_size, **answer})
    else:
        print_text(f"{file}\n")
    return Exit.PASS
