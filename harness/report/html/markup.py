"""Builds HTML safely: every text is escaped unless this module produced it."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

VOID = {"meta", "br", "hr", "input"}


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def element(tag: str, *content: object, **attributes: object) -> Html:
    """Return `<tag attributes>content</tag>`. `class_` becomes `class`, `data_x` `data-x`; None and False are left out."""
    words = [tag]
    for name, value in attributes.items():
        if value is not None and value is not False:
            name = name.rstrip("_").replace("_", "-")
            words.append(name if value is True else f'{name}="{escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    return Html(opening if tag in VOID else f"{opening}{join(*content)}</{tag}>")


def join(*content: object) -> Html:
    """Concatenate the pieces, escaping those that are not `Html`. None is skipped."""
    return Html(
        "".join(piece if isinstance(piece, Html) else escape(str(piece)) for piece in content if piece is not None)
    )


def table_by_campaign(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]], numbers: Iterable[int] = (),
    optional: Collection[str] = ("campaign",),
) -> Html:  # fmt: skip
    """Return a `table` without those of its `optional` columns that are empty, as `campaign` is unless two are compared."""
    kept = [i for i, head in enumerate(heads) if head not in optional or any(row[i] for row in rows)]
    shown = ([row[i] for i in kept] for row in rows)
    return table(caption, [heads[i] for i in kept], shown, [kept.index(i) for i in numbers])


def table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[object]], numbers: Iterable[int] = ()) -> Html:
    """Return a table that scrolls in a narrow window. `numbers`: the indices of the columns to align to the right."""
    right = set(numbers)

    def cells(tag: str, row: Iterable[object]) -> Html:
        return element(
            "tr",
            *(
                element(tag, cell, class_="number" if i in right else None, scope="col" if tag == "th" else None)
                for i, cell in enumerate(row)
            ),
        )

    return element(
        "div",
        element(
            "table",
            element("caption", element("span", caption)),
            element("thead", cells("th", heads)),
            element("tbody", *(cells("td", row) for row in rows)),
        ),
        class_="scroll",
    )
