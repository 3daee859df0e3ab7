"""The documentation is current: generated parts equal the code. Links, named files, commands and their options exist."""

import re
from typing import Any

import pytest
import typer

from docs.generate import MARK, PAGES, PARTS, ROOT, current, table
from mutants.planting import HANDWRITTEN, HARNESS, PROCESSES, handwritten_mutants
from zab_chaos.harness.cli.app import app


@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_are_current(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert current(text) == text, f"{page} is behind the code: run `make docs`"


def test_every_part_is_in_some_page() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert {found["name"] for found in MARK.finditer(text)} == set(PARTS)
    assert len(re.findall("<!-- generated: ", text)) == len(re.findall("<!-- end -->", text)) == len(MARK.findall(text))


def test_a_stale_part_is_noticed() -> None:
    stale = "before\n<!-- generated: phases -->\nsomething old\n<!-- end -->\nafter\n"
    fresh = current(stale)
    assert "something old" not in fresh
    assert "DISCOVERY --> SYNCHRONIZATION" in fresh
    assert fresh.startswith("before\n")
    assert fresh.endswith("<!-- end -->\nafter\n")
    assert current(fresh) == fresh


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(KeyError):
        current("<!-- generated: nothing -->\n<!-- end -->\n")


def test_a_bar_in_a_cell_is_escaped() -> None:
    assert table(("a",), [("x|y",)]).splitlines()[2] == "| x\\|y |"


EXAMPLES = sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("examples/*/README.md"))
LINKED = (*PAGES, "results/README.md", *EXAMPLES)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub derives from a page's headings."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", LINKED)
def test_links_have_targets(page: str) -> None:
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    missing = []
    for link in links:
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            missing.append(link)
    assert missing == []


def test_anchors_of_headings() -> None:
    assert anchors("# A page\n\n## What is `judged`?\n") == {"a-page", "what-is-judged"}


FOLDERS = "node|faults|harness|model|pipeline|tests|docs|scenarios|benchmarks|mutants|examples"


@pytest.mark.parametrize("page", LINKED)
def test_files_that_are_named_exist(page: str) -> None:
    """A path such as `node/core/ready.py` in the text is a file of the repository."""
    named = set(re.findall(rf"`((?:{FOLDERS})/[\w/.-]+)`", (ROOT / page).read_text(encoding="utf-8")))
    missing = sorted(name for name in named if not (ROOT / name).exists())
    assert missing == []


def commands(text: str) -> list[list[str]]:
    """Return the words of each command `zab ...` in the code of a page, in a block or in a line, without comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`(zab [^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    found = (re.match(r"(?:\$ )?(?:\.venv/bin/)?zab ([^#]+)", line) for line in [*lines, *inline])
    return [match[1].split() for match in found if match]


COMMAND: Any = typer.main.get_command(app)


def mistake(words: list[str]) -> str | None:
    """Return what the command line does not know of a command: its name, or one of its options."""
    command = COMMAND
    while words and hasattr(command, "commands"):
        name, *words = words
        if name not in command.commands:
            return f"{name} (a command)"
        command = command.commands[name]
    known = {"--help", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}
    options = (re.match(r"--[\w-]+", word.lstrip("[")) for word in words)
    return next((option[0] for option in options if option and option[0] not in known), None)


@pytest.mark.parametrize("page", LINKED)
def test_commands_and_their_options_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    wrong = {" ".join(words): found for words in commands(text) if (found := mistake(words))}
    assert wrong == {}


def test_commands_of_a_page() -> None:
    page = "Try `zab up`, or `zab run X [--on BACKEND]`.\n\n```\n$ zab zookeeper check --jobs 4  # four\nls\n```\n"
    assert commands(page) == [["zookeeper", "check", "--jobs", "4"], ["up"], ["run", "X", "[--on", "BACKEND]"]]
    assert [mistake(words) for words in commands(page)] == [None, None, None]
    assert mistake(["fly"]) == "fly (a command)"
    assert mistake(["zookeeper", "list", "--jobs", "4"]) == "--jobs"
    assert mistake(["run", "X", "[--swarm]"]) == "--swarm"


def test_the_figures_on_mutants_agree() -> None:
    """Of each sample by hand, with its files, and in the README, which adds up the samples of outsiders that exploration
    searches for, and names that of processes apart."""
    text = (ROOT / "docs/mutation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \| (\d+) \| (\d+) of (\d+) \| \[(\d+)\]", text, re.MULTILINE)
    samples = {name: tuple(map(int, numbers)) for name, *numbers in rows if name in HANDWRITTEN}
    assert samples.keys() == set(HANDWRITTEN)
    for name, (planted, equivalent, caught, others, survivors) in samples.items():
        mutants = handwritten_mutants(name)
        assert (len(mutants), sum(bool(one.equivalent) for one in mutants)) == (planted, equivalent), name
        assert (planted - equivalent, others - caught) == (others, survivors), name
    outsiders = [numbers for name, numbers in samples.items() if name not in ("own", PROCESSES, HARNESS)]
    caught, others = (sum(numbers[place] for numbers in outsiders) for place in (2, 3))
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "{2} of the authors' {3} bugs".format(*samples["own"]) in readme
    assert f"and {caught} of the {others} that" in readme
    assert "Eleven real runs caught {2} of {3} in".format(*samples[PROCESSES]) in readme
    survivors = samples[PROCESSES][4]
    (tested,) = re.findall(rf"Of the {survivors} survivors of the runs, the test suite catches (\d+)\.", text)
    assert f"and the test suite catches {tested} of the other {survivors}." in readme
    left = text.partition("#### Survivors of the tests")[2].partition("\n### ")[0]
    names = {one.name for one in handwritten_mutants(PROCESSES) if f"`{one.name}`" in left}
    assert len(names) == survivors - int(tested)
