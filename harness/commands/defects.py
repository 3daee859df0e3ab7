"""`zab defects`: the known bugs, and the proof that each is caught: its scenario fails with it and passes without it."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from faults.defects import DEFECTS, Defect
from faults.scenario import Scenario
from harness import catalogue
from harness.commands.output import console_for, print_json
from harness.commands.run import read, unseen, wish_for
from harness.exits import BadInput, Exit
from harness.run import Ran
from model.verdict import Judgement


@dataclass(slots=True)
class Tried:
    """A defect's runs: which properties each run with it found violated, and how each run without it ended."""

    defect: Defect
    violated: list[list[str]] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    strange: list[Path] = field(default_factory=list)

    @property
    def caught(self) -> int:
        """In how many runs the property that the defect breaks was found violated."""
        return sum(self.defect.property in names for names in self.violated)

    @property
    def survives(self) -> bool:
        """It was never caught, or missed although its scenario is certain, or the scenario fails without it too."""
        enough = self.caught > 0 if self.defect.probabilistic else self.caught == len(self.violated)
        return not enough or any(verdict != "PASS" for verdict in self.without)


def chosen(only: list[str]) -> list[Defect]:
    """Those named, or all. Raises BadInput."""
    unknown = [name for name in only if name not in DEFECTS]
    if unknown:
        raise BadInput(
            "\n".join(f"no defect is called {name!r}. {catalogue.did_you_mean(name, DEFECTS)}" for name in unknown)
        )
    return [DEFECTS[name] for name in only or DEFECTS]


def show(only: list[str], *, json: bool) -> int:
    defects = chosen(only)
    if json:
        print_json([_facts(defect) for defect in defects])
        return Exit.PASS
    console = console_for(json=json)
    for defect in defects:
        title = Text(defect.name, "bold").append(f"  {defect.ticket or ''}  breaks: {defect.property}", "dim")
        console.print(title, highlight=False)
        console.print(Text(textwrap.indent(textwrap.fill(defect.about, 76), "  ")), highlight=False)
    console.print("\nzab run defects/NAME --defect NAME shows one being caught.", highlight=False)
    return Exit.PASS


def _facts(defect: Defect) -> dict[str, str | None]:
    names = ("name", "about", "ticket", "property", "scenario", "probabilistic")
    return {name: getattr(defect, name) for name in names}


def check(only: list[str], *, on: str, times: int, results: Path, json: bool) -> int:
    """Run every defect's scenario with and without it. Exit 1 if one survives. Raises BadInput."""
    defects = chosen(only)
    scenarios = {
        defect.name: read(f"defects/{defect.scenario}", on=on, nodes=None, defect=defect.name) for defect in defects
    }
    console = console_for(json=json)
    tried = []
    for defect in defects:
        tried.append(_try(defect, scenarios[defect.name], on, times, results))
        console.print(_line(tried[-1]), highlight=False, soft_wrap=True)
        for folder in tried[-1].strange:
            console.print(Text(f"  {folder}"), soft_wrap=True)
    console.print()
    console.print(_matrix(tried))
    if json:
        print_json([_answer(one) for one in tried])
    return Exit.VIOLATION if any(one.survives for one in tried) else Exit.PASS


def _try(defect: Defect, scenario: Scenario, on: str, times: int, results: Path) -> Tried:
    tried = Tried(defect)
    for number in range(times):
        ran = _run(defect, scenario, on, number, results)
        tried.violated.append(_violated(ran))
        if defect.property not in tried.violated[-1]:
            tried.strange.append(ran.folder.path)
        ran = _run(defect, replace(scenario, defect=None), on, number, results)
        tried.without.append(str(ran.verdict.verdict))
        if ran.verdict.exit != Exit.PASS:
            tried.strange.append(ran.folder.path)
    return tried


def _run(defect: Defect, scenario: Scenario, on: str, number: int, results: Path) -> Ran:
    wish = wish_for(f"defects/{defect.scenario}", scenario, seed=scenario.seed + number, results=results, on=on)
    return unseen(scenario, wish)


def _violated(ran: Ran) -> list[str]:
    return [item.name for item in ran.verdict.properties if item.verdict is Judgement.VIOLATION]


def _line(tried: Tried) -> Text:
    word = Text("SURVIVES", "bold red") if tried.survives else Text("caught", "green")
    return Text(f"{tried.defect.name}: ").append_text(word)


def _matrix(tried: Iterable[Tried]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("defect", "must break", "caught", "also broken", "without it"):
        table.add_column(name)
    for one_of in tried:
        others = sorted({name for names in one_of.violated for name in names} - {one_of.defect.property})
        passed = one_of.without.count("PASS")
        table.add_row(
            one_of.defect.name,
            one_of.defect.property,
            Text(f"{one_of.caught}/{len(one_of.violated)}", "red" if one_of.survives else "green"),
            ", ".join(others) or "-",
            f"{passed}/{len(one_of.without)} PASS",
        )
    return table


def _answer(tried: Tried) -> dict[str, object]:
    return {
        **_facts(tried.defect),
        "violated": tried.violated,
        "without": tried.without,
        "caught": tried.caught,
        "survives": tried.survives,
    }
