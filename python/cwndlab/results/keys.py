"""Keys that tell runs and flows of a summary apart: which do, what rows have, what a short name means."""

from collections.abc import Sequence

import polars as pl

from cwndlab.errors import InputError, unknown
from cwndlab.results import columns
from cwndlab.results.labels import WORDS, Labels


def filtered(rows: pl.DataFrame, key: str, wanted: object, labels: Labels) -> pl.DataFrame:
    """Return the rows of a summary whose `key` has a value, or one of a list, as text or as its label.

    `key` may be the end of a swept key (`whole_key`). Raises InputError, with the nearest names, for a key or
    a value that does not exist.
    """
    names = [*columns.swept_keys(rows), *WORDS]
    key = whole_key("key", key, [name for name in names if name in rows.columns], rows, equal=True)
    given = wanted if isinstance(wanted, list | tuple) else [wanted]
    values = [labels.written(key, str(value)) for value in given]
    text = rows[key].cast(pl.String)
    present = set(text.to_list())
    for value in values:
        if value not in present:
            raise unknown(key, value, [labels.value(key, each) for each in columns.ordered(rows[key])])
    return rows.filter(text.is_in(values))


def whole_key(what: str, key: str, keys: Sequence[str], rows: pl.DataFrame, *, equal: bool = False) -> str:
    """Return the one of `keys` that is `key` or, as tables and legends shorten them, ends with it.

    Of several that end with it and are swept together (`zip`), so that each tells `rows` apart as the others
    do, it is the first; with `equal` only if they have the same values. Raises InputError, which begins with
    `what`, for a key that does not exist or that several end with.
    """
    if key in keys:
        return key
    ending = [name for name in keys if name.endswith(f".{key}")]
    if len(ending) > 1 and not _together(rows.select(ending), equal=equal):
        raise InputError(f"{what}: {key} may be {' or '.join(ending)}; give the whole key")
    if not ending:
        raise unknown(what, key, keys)
    return ending[0]


def _together(rows: pl.DataFrame, *, equal: bool) -> bool:
    """Whether each column of rows tells them apart as the others do."""
    columns = rows.get_columns()
    if equal:
        return all(column.equals(columns[0], null_equal=True) for column in columns)
    return rows.n_unique() > 1 and all(column.n_unique() == rows.n_unique() for column in columns)


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


def whole_rounds(cells: Sequence[Sequence[object]], most: int) -> int:
    """Return how many combinations to show, from the first: as many as there is room for, but whole rounds.

    A round is what lies between two changes of the key that changes least among them: what ended inside one
    would not show the same values beside each other.
    """
    if len(cells) <= most:
        return len(cells)
    changes = [
        [place for place in range(1, len(cells)) if values[place] != values[place - 1]]
        for values in zip(*cells, strict=True)
    ]
    slowest = min((places for places in changes if places and places[0] <= most), key=len, default=[])
    last = max((place for place in slowest if place <= most), default=most)
    return last if last > most // 2 else most
