"""The names of swept keys and their values, in every table, plot, sentence and report.

A value that is a mapping or a list is called by the members in which it differs from the other values of its
key, such as `abc_l_var 8`; every other one is called as the experiment wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cwndlab.experiment.locate import SWEPT
from cwndlab.experiment.subset import ANALOGUE
from cwndlab.results import inferred_models
from cwndlab.results.texttable import short_names

if TYPE_CHECKING:
    import polars as pl

WORDS = ("stack", "app", "cc", "flow", "repeat", "testbed")
"""Columns of the summary that runs and flows can be told apart by, besides the swept keys."""

ITSELF = ("results", "stack", "cc", "kind")
"""Ends of keys whose values say what they are, so that a legend names the value alone."""

_UNTOLD = ("loss",)
"""Ends of keys of whose mappings no member says what they are of: `random 1%`."""

_NOT_LEVELS = (*SWEPT, *WORDS, "run", "hop")

MAX_TRIED = 100
"""Number of members that are tried one after the other to tell values apart, of those that only some values
have.
"""

MAX_DEPTH = 24
"""Deepest nesting of a value that is taken apart, as deep as an experiment file may be."""


class Labels:
    """The labels of the values that results, or a plan, have of each swept key."""

    def __init__(self, values: Mapping[str, Iterable[object]]) -> None:
        """Find them for all values of each key."""
        self._labels = {key: found for key, given in values.items() if (found := of_values(given))}

    def value(self, key: str, value: object) -> object:
        """Return what stands for a value: itself unless it is a mapping or a list."""
        return self._labels.get(key, {}).get(str(value), value)

    def written(self, key: str, text: str) -> str:
        """Return the value that a label stands for, or that is written out itself."""
        return next((value for value, label in self._labels.get(key, {}).items() if label == text), text)

    def shown(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows of a summary with the labels in place of the values."""
        import polars as pl

        keys = [key for key in self._labels if key in rows.columns]
        return rows.with_columns(pl.col(key).replace(self._labels[key]) for key in keys) if keys else rows

    def words(
        self,
        row: Mapping[str, object],
        keys: Sequence[str],
        *,
        among: Sequence[str] = (),
        alone: Sequence[str] = (),
        called: Callable[[str, object, str], str] = lambda key, value, text: text,
    ) -> str:
        """Return what tells a row from others in a legend, a title or a sentence: the values of some keys.

        Keys have the shortest names that tell them from those `among` which they are, by default themselves;
        of the keys `alone`, and of those whose values say what they are, the value stands without a name.
        `called` gives what to write for a key and its value instead of that.
        """
        short = short_names([key for key in dict.fromkeys([*among, *keys]) if key not in alone])
        texts = [str(row[key]) if key in alone else self._part(short[key], key, row[key]) for key in keys]
        return ", ".join(called(key, row[key], text) for key, text in zip(keys, texts, strict=True))

    def _part(self, name: str, key: str, value: object) -> str:
        if value is None:
            return f"no {name}"
        label = str(self.value(key, value))
        text = inferred_models.marked(label) if inferred_models.is_stack_key(key) else label
        # A name that needs the word before its last one is not the only key that ends so.
        tells = key in self._labels and name not in _UNTOLD
        itself = name in ITSELF or tells or _is_level(key, label)
        return text if itself and "." not in name else f"{name} {text}"


def _is_level(key: str, label: str) -> bool:
    """Whether a value is the level of an axis with a name, and is a word."""
    return "." not in key and key not in _NOT_LEVELS and label[:1].isalpha()


def of_values(values: Iterable[object]) -> dict[str, str]:
    """Return a label for each of the values of one key, none alike; nothing where no value has members."""
    texts = list(dict.fromkeys(str(value) for value in values if value is not None))
    members = {text: _members(text) for text in texts}
    if len(texts) < 2 or all(found is None for found in members.values()):
        return {}
    # Where a word may stand for a mapping, it is its kind.
    known = {text: {"kind": text} if found is None else found for text, found in members.items()}
    paths = list(dict.fromkeys(path for found in known.values() for path in found))
    by_path = {path: [found[path] for found in known.values() if path in found] for path in paths}
    apart = [path for path in paths if len(by_path[path]) < len(texts) or len(set(by_path[path])) > 1]
    differ = [path for path in apart if len(set(by_path[path])) > 1]
    others = [path for path in apart if len(set(by_path[path])) == 1]  # which some have, and others have not
    more = [[path] for path in others[:MAX_TRIED]]
    for chosen in [*([differ] if differ else []), *([*differ, *some] for some in [*more, others])]:
        labels = {text: _label(found, chosen, apart) for text, found in known.items()}
        if len(set(labels.values())) == len(labels):
            break
    else:
        labels = {text: text for text in texts}
    return {text: (ANALOGUE if text.startswith(ANALOGUE) else "") + label for text, label in labels.items()}


def _label(members: Mapping[str, str], chosen: Sequence[str], apart: Sequence[str]) -> str:
    """Return a value's members that were chosen; without any of them, what it has and others have not."""
    there = [path for path in chosen if path in members] or [p for p in apart if p in members][:1]
    short = short_names([*chosen, *(path for path in there if path not in chosen)])
    # A member of another kind of value says of which: `gilbert p 0.2%` beside `random 1%`.
    short |= {path: path.replace(".", " ") for path in there if path not in chosen and path.count(".") == 1}
    parts = [members[path] if short[path] in ITSELF else f"{short[path]} {members[path]}" for path in there]
    return ", ".join(parts) or f"{short[chosen[0]] if chosen else ''} unset".strip()


def _members(text: str) -> dict[str, str] | None:
    """Return the members of a value as a sweep writes it in one line, by their dotted paths. None of a
    scalar."""
    text = text.removeprefix(ANALOGUE)
    found = dict(_inside(text, "", 0))
    return None if list(found) == [""] else found


def _inside(text: str, path: str, depth: int) -> Iterable[tuple[str, str]]:
    ends = text[:1] + text[-1:]
    if ends not in ("{}", "[]") or len(text) < 2 or depth == MAX_DEPTH:
        yield path, text
        return
    for number, piece in enumerate(_pieces(text[1:-1], mapping=ends == "{}"), 1):
        key, _, value = piece.partition(": ") if ends == "{}" else (f"[{number}]", "", piece)
        yield from _inside(value, f"{path}.{key}" if path else key, depth + 1)


def _pieces(text: str, *, mapping: bool) -> list[str]:
    """Return what commas part outside brackets; of a mapping, what has no key belongs to what is before."""
    is_new: Callable[[str], bool] = (lambda piece: ": " in piece) if mapping else (lambda _: True)
    pieces: list[str] = []
    depth = 0
    for piece in text.split(", ") if text else ():
        if pieces and (depth > 0 or not is_new(piece)):
            pieces[-1] += f", {piece}"
        else:
            pieces.append(piece)
        depth += sum(piece.count(sign) for sign in "([{") - sum(piece.count(sign) for sign in ")]}")
    return pieces
