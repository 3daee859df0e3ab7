"""The documentation says what the code says: generated parts are current, and no link leads nowhere."""

import re

import pytest

from docs.generate import MARK, PAGES, PARTS, ROOT, current, table


@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_are_current(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert current(text) == text, f"{page} is behind the code: run `make docs`"


def test_every_part_stands_in_some_page() -> None:
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


def test_a_part_that_nobody_generates_is_an_error() -> None:
    with pytest.raises(KeyError):
        current("<!-- generated: nothing -->\n<!-- end -->\n")


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert table(("a",), [("x|y",)]).splitlines()[2] == "| x\\|y |"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    """`node/core/ready.py` in the text is a file of the tree, from the root or beside the page's other mentions."""
    named = set(
        re.findall(r"`((?:node|faults|harness|model|tests|docs|scenarios)/[\w/.-]+)`", (ROOT / page).read_text())
    )
    missing = sorted(name for name in named if not (ROOT / name).exists())
    assert missing == []
