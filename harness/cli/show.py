"""`zab show`: a step or a figure of the papers, as this protocol does it, drawn as one HTML file."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from zab_chaos.harness.cli.output import print_json
from zab_chaos.harness.errors import BadInput, Exit, HarnessError, check_names
from zab_chaos.harness.report.html.transcript_page import transcript_page
from zab_chaos.harness.results.run_folder import write_atomically
from zab_chaos.model.transcripts.drawing import DrawnEnsemble
from zab_chaos.model.transcripts.transcript import FOLDER, play


def show_command(name: str | None, *, out: Path | None, json: bool) -> int:
    """Write the drawing and print where it is; without a name, list what there is. Raises BadInput, HarnessError."""
    known = {path.stem: path for path in sorted(FOLDER.glob("*.txt"))}
    if name is None:
        return _list(known, json=json)
    check_names("transcript", [name], known)
    file = (out or Path(f"{name}.html")).absolute()
    if file.is_dir() or not file.parent.is_dir():
        raise BadInput(f"{file} can't be written: give the name of a file in a folder that exists, with --out.")
    drawn, text = play(known[name].read_text(encoding="utf-8"), DrawnEnsemble)
    try:
        write_atomically(file, transcript_page(name, text, drawn))
    except OSError as error:
        raise HarnessError(f"{file} can't be written: {error.strerror}. Name another file with --out FILE.") from error
    if json:
        print_json({"drawing": str(file), "transcript": text})
    else:
        print(file)  # noqa: T201
    return Exit.PASS


def _list(known: dict[str, Path], *, json: bool) -> int:
    """Each with the first sentence of what it shows."""
    about = {name: _first_sentence(path.read_text(encoding="utf-8")) for name, path in known.items()}
    if json:
        print_json(about)
        return Exit.PASS
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in about.items():
        table.add_row(name, words)
    Console().print(table)
    return Exit.PASS


def _first_sentence(text: str) -> str:
    words = " ".join(text.partition("\n\n")[0].split())
    parts = words.split(". ")
    return next(
        (". ".join(parts[:count]) for count in range(1, len(parts) + 1) if len(". ".join(parts[:count])) > 40), words
    )
