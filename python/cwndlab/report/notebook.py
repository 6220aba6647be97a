"""The form of results in a notebook: a heading, a table and a note as HTML, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from cwndlab.analysis import contrasts, verdict

MAX_ROWS = 12
"""Rows of a table in a """


@dataclass(frozen=True)
class Comparisons(contrasts.Comparisons):
    """The answers to one question, in words where they are printed and as a table in notebooks."""

    @classmethod
    def of(cls, found: contrasts.Comparisons) -> Comparisons:
        """Take over the answers of a comparison."""
        return cls(found.each, found.overall, found.notes, found.alone)

    def __repr__(self) -> str:
        """Format the number of comparisons, and the first."""
        first = next(iter([*self.overall, *self.each]), None)
        return (
            f"<Comparisons: {len(self.each)} of combinations, {len(self.overall)} overall; first {first!r}>"
        )

    def __str__(self) -> str:
        """Format the comparisons as `cwndlab compare` prints them."""
        return verdict.text(self)

    def _repr_html_(self) -> str:
        """Form of the comparisons in a notebook: a sentence overall, and a row for each combination."""
        keys = list(dict.fromkeys(key for each in self.each for key in each.contrast.where))
        heads = [*keys, "metric", "of", "against", "difference", "interval", "p", "verdict"]
        rows = [
            [
                *(each.contrast.where.get(key, "") for key in keys),
                each.metric,
                each.b.label,
                each.a.label,
                verdict.difference(each),
                verdict.interval(each),
                "" if each.corrected_p is None else f"{each.corrected_p:.2g}",
                each.kind.value,
            ]
            for each in self.each[:MAX_ROWS]
        ]
        said = " ".join(verdict.sentence(each) for each in self.overall)
        return page(said, table(heads, rows), "; ".join(self.notes))


def page(heading: str, body: Markup, note: str) -> str:
    """A heading, a table and a note."""
    return str(
        Markup("<div><p><strong>{}</strong></p>{}<p><small>{}</small></p></div>").format(heading, body, note)
    )


def text(heading: str, body: str) -> str:
    """A heading, and a text as it stands below it."""
    return str(
        Markup("<details><summary><strong>{}</strong></summary><pre>{}</pre></details>").format(heading, body)
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    """A table of texts and numbers."""
    head = Markup("").join(Markup("<th>{}</th>").format(name) for name in heads)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(Markup("<td>{}</td>").format(_text(cell)) for cell in row)
        )
        for row in rows
    )
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)


def _text(cell: object) -> str:
    if cell is None:
        return "–"
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)
