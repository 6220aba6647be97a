"""A few HTML elements as functions; every text that is not already markup is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

_VOID = frozenset(("meta", "input", "br"))


@dataclass(frozen=True)
class Markup:
    """HTML that needs no escaping any more."""

    text: str


def raw(text: str) -> Markup:
    """Return text of our own as markup, unescaped: never for what came from a file."""
    return Markup(text)


def join(*parts: Markup) -> Markup:
    """Return the parts one after the other."""
    return Markup("\n".join(part.text for part in parts if part.text))


def element(tag: str, *content: object, **attributes: str) -> Markup:
    """Return an element; `class_` stands for class, and `_` inside a name for `-`."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for name, value in attributes.items()
    )
    if tag in _VOID:
        return Markup(f"<{tag}{named}>")
    inner = "".join(_escaped(part) for part in content)
    return Markup(f"<{tag}{named}>{inner}</{tag}>")


def details(summary: str, *content: object) -> Markup:
    """Return content that is folded away under a line of text."""
    return element("details", element("summary", summary), *content)


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    caption: str,
    sortable: bool = False,
    row_heads: int = 0,
    titles: Sequence[str] = (),
    filterable: bool = False,
) -> Markup:
    """Return a table in a box that scrolls; a cell is a value, or a pair (what is shown, what it sorts by).

    The first `row_heads` cells of a row are its heads; `titles` are hints on the column heads.
    """
    head = []
    for place, name in enumerate(heads):
        attributes = {"scope": "col"}
        if rows and _is_number(rows[0][place]):
            attributes["class_"] = "number"
        if place < len(titles) and titles[place] and titles[place] != name:
            attributes["title"] = titles[place]
        label = element("button", name, type="button") if sortable else name
        head.append(element("th", label, **attributes))
    body = [
        element("tr", *(_cell(cell, head=place < row_heads) for place, cell in enumerate(row)))
        for row in rows
    ]
    classes = "sortable filterable" if sortable and filterable else "sortable" if sortable else "plain"
    inner = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_=classes,
    )
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(cell: object, *, head: bool) -> Markup:
    attributes = {"scope": "row"} if head else {}
    shown, key = cell if isinstance(cell, tuple) else (cell, cell)
    if _is_number(cell):
        attributes["class_"] = "number"
        if not math.isnan(key):
            attributes["data_v"] = repr(key)
    return element("th" if head else "td", shown, **attributes)


def _is_number(cell: object) -> bool:
    return isinstance(cell[1] if isinstance(cell, tuple) else cell, int | float)


def _escaped(part: object) -> str:
    return part.text if isinstance(part, Markup) else html.escape(str(part))
