"""The templates of a page filled in; every text that is not the report's own markup is escaped."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from itertools import zip_longest

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cwndlab.results.texttable import unbroken


@dataclass(frozen=True)
class Table:
    """A table in a box that scrolls; a cell is a value, or a pair (what is shown, what it sorts by)."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str
    sortable: bool = False
    row_heads: int = 0
    """Number of cells at the beginning of a row that are its heads."""
    titles: Sequence[str] = ()
    """Hints on the column heads."""
    filterable: bool = False

    def body(self) -> list[list[tuple[object, object]]]:
        """The rows, every cell as a pair."""
        return [[cell if isinstance(cell, tuple) else (cell, cell) for cell in row] for row in self.rows]

    def columns(self) -> Iterator[tuple[str, tuple[object, object] | None, str | None]]:
        """Each column's head, first cell, and hint on the head."""
        first = next(iter(self.body()), [])
        return zip_longest(self.heads, first, self.titles)


def page(template: str, **values: object) -> str:
    """Return a page that loads nothing: its policy allows its style, and the scripts where it has them."""
    style, tables, plots = (
        Markup(resources(__package__).joinpath(name).read_text(encoding="utf-8"))
        for name in ("report.css", "tables.js", "report.js")
    )
    script = tables + plots
    return _environment().get_template(template).render(style=style, script=script, **values)


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_written,
    )
    made.filters["content_hash"] = _content_hash
    # The filter `tojson` also spells `<` otherwise, so that nothing ends the script element that it is in.
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made


def _written(value: object) -> object:
    """A value as it is written: numbers stay beside their units, but in markup (of `forceescape`, too)."""
    return unbroken(value) if type(value) is str else value


def _content_hash(text: str) -> str:
    """The hash by which a page's own policy allows a style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
