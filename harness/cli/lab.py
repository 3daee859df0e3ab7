"""`zab lab`: run the db-19 lab and print the hash of its dump.

Numbers are declared as text and parsed here, so that all mistakes of a command line are reported at once. typer would stop
at the first.
"""

import hashlib
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zab_chaos.harness.cli.output import print_text
from zab_chaos.harness.errors import BadInput, Exit
from zab_chaos.harness.machine.files import output_mistake, writing

if TYPE_CHECKING:
    from zab_chaos.model.lab import LabArguments, LabSimulator, Link

BACKENDS = ("sim", "lockstep")
NUMBER = re.compile(r"-?[0-9]{1,40}", re.ASCII)


def lab(
    seed: Annotated[str, typer.Option(metavar="N", help="The seed that draws delays and timeouts.")] = "1",
    nodes: Annotated[str, typer.Option(metavar="N", help="The number of nodes.")] = "3",
    rounds: Annotated[str, typer.Option(metavar="N", help="The number of ticks.")] = "1000",
    proposals: Annotated[str, typer.Option(metavar="N", help="The number of proposals, evenly spread.")] = "10",
    partition: Annotated[
        str,
        typer.Option(
            metavar="FROM,TO,...",
            help="Pairs of nodes whose link, in this direction, loses all messages. Node 1 is 0, as in the published lab.",
        ),
    ] = "",
    dump: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the raw dump to FILE.", show_default=False)
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="First print the dump in readable form.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="First print every message, one per line.")] = False,
    on: Annotated[
        str,
        typer.Option(
            "--on", metavar="BACKEND", help="Where the nodes run: sim (this process) or lockstep (a process each)."
        ),
    ] = "sim",
) -> int:
    """Run the db-19 lab, a small Zab of its own, and print the SHA-256 of its dump (with a newline only on a terminal)."""
    arguments = _parse(
        {"seed": seed, "nodes": nodes, "rounds": rounds, "proposals": proposals}, partition=partition, dump=dump, on=on
    )
    with _simulator(arguments, on=on, trace=trace) as simulator:
        content = simulator.run()
        if dump:
            with writing(dump, "--dump"):
                dump.write_bytes(content)
        if show:
            from zab_chaos.model.lab.dump import show_dump

            print_text(show_dump(simulator.nodes))
    print_text(hashlib.sha256(content).hexdigest() + ("\n" if sys.stdout.isatty() else ""))
    return Exit.PASS


def _simulator(arguments: "LabArguments", *, on: str, trace: bool) -> "AbstractContextManager[LabSimulator]":
    from zab_chaos.model.lab import LabSimulator, Message
    from zab_chaos.model.lab.transcript import transcript_line

    def print_line(now: int, source: int, destination: int, message: Message, arrives: bool) -> None:
        print_text(transcript_line(now, source, destination, message, arrives) + "\n")

    observe = print_line if trace else None
    if on == "lockstep":
        from zab_chaos.harness.backends.lockstep.lab import lab_in_lockstep

        return lab_in_lockstep(arguments, observe)
    return nullcontext(LabSimulator(arguments, observe))


def _parse(texts: dict[str, str], *, partition: str, dump: Path | None, on: str) -> "LabArguments":
    """Parse the arguments of the command line. Raises BadInput with all mistakes, one per line."""
    from zab_chaos.model.lab import BadLabArguments, LabArguments

    mistakes: list[str] = []
    numbers = {name: _parse_number(name, text, mistakes) for name, text in texts.items()}
    links = _parse_links(partition, mistakes)
    if dump is not None and (mistake := output_mistake(dump)):
        mistakes.append(f"--dump: {mistake}")
    if on not in BACKENDS:
        mistakes.append(f"--on is {on!r}; the lab runs on {' or '.join(BACKENDS)}")
    try:
        arguments = LabArguments(
            seed=_or_one(numbers["seed"]),
            nodes=_or_one(numbers["nodes"]),
            rounds=_or_one(numbers["rounds"]),
            proposals=_or_one(numbers["proposals"]),
            # With no number of nodes there is nothing to compare the partition's ids with.
            partition=frozenset() if numbers["nodes"] is None else links,
        )
    except BadLabArguments as error:
        mistakes += [f"--{mistake}" for mistake in error.mistakes]
    if mistakes:
        raise BadInput("\n".join(["zab lab can't run with these arguments:", *(f"  {line}" for line in mistakes)]))
    return arguments


def _or_one(number: int | None) -> int:
    """Return the number, or 1 if it was unreadable, so that the other arguments can still be checked."""
    return 1 if number is None else number


def _parse_number(name: str, text: str, mistakes: list[str]) -> int | None:
    """Parse a whole number. Add a mistake and return None if it is none."""
    if NUMBER.fullmatch(text.strip()):
        return int(text)
    mistakes.append(f"--{name} is {text!r}; it needs a whole number")
    return None


def _parse_links(text: str, mistakes: list[str]) -> "frozenset[Link]":
    """Parse `from,to,from,to,...` into pairs. An empty text cuts no link.

    After a mistake each readable id is paired with itself, so that the ids can still be checked.
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    unreadable = [part for part in parts if not NUMBER.fullmatch(part)]
    if unreadable:
        mistakes.append(
            f"--partition has {', '.join(map(repr, unreadable))} where node ids belong (from,to,from,to,...)"
        )
    if len(parts) % 2:
        mistakes.append(f"--partition lists pairs from,to,from,to,...; of {len(parts)} entries the last has no partner")
    ids = [int(part) for part in parts if part not in unreadable]
    if unreadable or len(parts) % 2:
        return frozenset(zip(ids, ids, strict=True))
    return frozenset(zip(ids[::2], ids[1::2], strict=True))
