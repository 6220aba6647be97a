"""Says which stacks' models are inferred, for whatever shows results: no recording stands behind them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cwndlab.experiment.catalogue import catalogue

if TYPE_CHECKING:
    import polars as pl

MARK = " (inferred)"
"""Behind the name of such a stack, where there is room for it."""

STAR = "*"
"""Mark of an inferred model in a table for a terminal, with `FOOTNOTE` below the table."""

FOOTNOTE = f"{STAR} inferred: no recording of the real system stands behind the model"
"""The line below a table in which `STAR` marks such stacks."""


def is_inferred(name: object) -> bool:
    """Whether `name` is that of a stack whose model is inferred; False for everything else."""
    stack = catalogue().stack(name) if isinstance(name, str) else None
    return stack is not None and stack.inferred


def marked(value: object, mark: str = MARK) -> str:
    """Return a value as text, with the mark behind it if it is such a stack."""
    return f"{value}{mark}" if is_inferred(value) else str(value)


def is_stack_key(key: str) -> bool:
    """Whether a column of the summary, or a swept key, holds names of stacks."""
    return key.rpartition(".")[2] == "stack"


def of_rows(rows: pl.DataFrame) -> list[str]:
    """Return the stacks in rows of a summary whose models are inferred, of either end, each once."""
    keys = [key for key in rows.columns if is_stack_key(key)]
    return among(value for key in keys for value in rows[key].unique(maintain_order=True))


def among(values: Iterable[object]) -> list[str]:
    """Return the stacks among values whose models are inferred, each once."""
    return [str(name) for name in dict.fromkeys(values) if is_inferred(name)]


def with_marks(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of a summary with the mark behind the name of each such stack."""
    import polars as pl

    names = of_rows(rows)
    keys = [key for key in rows.columns if is_stack_key(key)]
    return rows.with_columns(pl.col(keys).replace({name: marked(name) for name in names})) if names else rows


def note(names: Iterable[str]) -> str:
    """Return a sentence on such stacks, without a full stop; empty if there are none."""
    listed = ", ".join(names)
    return f"inferred, with no recording of the real system behind the model: {listed}" if listed else ""
