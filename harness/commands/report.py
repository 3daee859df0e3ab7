"""`zab report`: one run as a single HTML file."""

from pathlib import Path

from rich.console import Console

from harness import results as stored
from harness.commands.output import print_json
from harness.exits import BadInput, Exit, HarnessError
from harness.html.page import page
from harness.html.story import read_story


def report_command(run: str, *, results: Path, out: Path | None, json: bool) -> int:
    """Write the report and print where it is. A run that failed has a report like any other, so the exit code is 0.

    Raises BadInput for a run or a file that can't be, HarnessError if the file can't be written.
    """
    folder = stored.find(results, run)
    file = folder.file("report.html") if out is None else out.absolute()
    if file.is_dir() or not file.parent.is_dir():
        what = "is a folder" if file.is_dir() else f"can't be written: there is no folder {file.parent}"
        raise BadInput(f"--out {out} {what}. Give the name of a file in a folder that exists.")
    story = read_story(folder.path)
    text = page(story)
    try:
        stored.write_whole(file, text)
    except OSError as error:
        raise HarnessError(f"{file} can't be written: {error.strerror}. Name another file with --out FILE.") from error
    damages = len(story.source.damages) + story.source.more
    if json:
        verdict = story.judged.verdict
        print_json(
            {
                "report": str(file),
                "folder": str(folder.path),
                "verdict": None if verdict is None else verdict.verdict,
                "bytes": file.stat().st_size,
                "damages": damages,
            }
        )
    else:
        if damages:
            Console(stderr=True).print(f"{damages} places could not be read; the report lists them", highlight=False)
        print(file)  # noqa: T201
    return Exit.PASS
