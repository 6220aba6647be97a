"""Keys that tell runs and flows of a summary apart: which do, what rows have, what a short name means."""

from collections.abc import Sequence

import polars as pl

from cwndlab.errors import InputError, unknown
from cwndlab.results import columns

WORDS = ("stack", "app", "cc", "flow", "repeat", "testbed")
"""Columns of the summary that runs and flows can be told apart by, besides the swept keys."""


def filtered(rows: pl.DataFrame, key: str, wanted: object) -> pl.DataFrame:
    """Return the rows of a summary whose `key` has a value, or one of a list, as text.

    `key` may be the end of a swept key (`whole_key`). Raises InputError, with the nearest names, for a key or
    a value that does not exist.
    """
    names = [*columns.swept_keys(rows), *WORDS]
    key = whole_key("key", key, [name for name in names if name in rows.columns])
    values = [str(value) for value in wanted] if isinstance(wanted, list | tuple) else [str(wanted)]
    text = rows[key].cast(pl.String)
    present = set(text.to_list())
    for value in values:
        if value not in present:
            raise unknown(key, value, columns.ordered(rows[key].to_list()))
    return rows.filter(text.is_in(values))


def whole_key(what: str, key: str, keys: Sequence[str]) -> str:
    """Return the one of `keys` that is `key` or, as tables and legends shorten them, ends with it.

    Raises InputError, which begins with `what`, for a key that does not exist or that several end with.
    """
    if key in keys:
        return key
    ending = [name for name in keys if name.endswith(f".{key}")]
    if len(ending) > 1:
        raise InputError(f"{what}: {key} may be {' or '.join(ending)}; give the whole key")
    if not ending:
        raise unknown(what, key, keys)
    return ending[0]


def distinguishing(rows: pl.DataFrame, keys: Sequence[str]) -> list[str]:
    """Return the fewest of `keys` that tell all combinations in `rows` apart, the earlier ones preferred.

    Keys that are swept together (`zip`) say the same, and so do `hosts.a.cc` and `cc`.
    """
    telling = [key for key in keys if rows[key].n_unique() > 1]
    for key in reversed(telling.copy()):
        fewer = [other for other in telling if other != key]
        if fewer and rows.select(fewer).n_unique() == rows.select(telling).n_unique():
            telling = fewer
    return telling
