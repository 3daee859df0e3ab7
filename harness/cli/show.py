"""`zab show`: draw a step of the protocol, or a figure of the papers, as one HTML file."""

from pathlib import Path

from zab_chaos.harness.cli.output import console_for, print_json, print_text
from zab_chaos.harness.errors import Exit, check_names
from zab_chaos.harness.machine.files import output_file, writing
from zab_chaos.harness.report.console import show_table, wrapping_table
from zab_chaos.harness.report.html.transcript_page import transcript_page
from zab_chaos.harness.results.run_folder import write_atomically
from zab_chaos.model.transcripts.drawing import DrawnEnsemble
from zab_chaos.model.transcripts.transcript import FOLDER, play


def show_command(name: str | None, *, out: Path | None, json: bool) -> int:
    """Write the drawing and print its path; without a name, list all names. Raises BadInput, HarnessError."""
    transcripts = {path.stem: path for path in sorted(FOLDER.glob("*.txt"))}
    if name is None:
        return _list(transcripts, json=json)
    check_names("transcript", [name], transcripts)
    file = output_file(out or Path(f"{name}.html")).absolute()
    drawn, text = play(transcripts[name].read_text(encoding="utf-8"), DrawnEnsemble)
    with writing(file):
        write_atomically(file, transcript_page(name, text, drawn))
    if json:
        print_json({"drawing": str(file), "transcript": text})
    else:
        print_text(f"{file}\n")
    return Exit.PASS


def _list(transcripts: dict[str, Path], *, json: bool) -> int:
    """List the names, each with the first sentence of its description."""
    about = {name: _first_sentence(path.read_text(encoding="utf-8")) for name, path in transcripts.items()}
    if json:
        print_json(about)
        return Exit.PASS
    table = wrapping_table(show_header=False)
    for name, sentence in about.items():
        table.add_row(name, sentence)
    show_table(console_for(json=json), table)
    return Exit.PASS


def _first_sentence(text: str) -> str:
    """Return the beginning of the first paragraph, up to the first end of a sentence after 40 characters."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentences = paragraph.split(". ")
    for count in range(1, len(sentences) + 1):
        beginning = ". ".join(sentences[:count])
        if len(beginning) > 40:
            return beginning
    return paragraph
