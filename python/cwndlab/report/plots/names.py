"""The names of keys' values in a picture: as the option `labels` says, or by themselves."""

from __future__ import annotations

from collections.abc import Mapping

from cwndlab.errors import InputError, unknown

NONE = "–"
"""Text for a value that is missing."""


class Names:
    """The labels of one picture, each bound to a value of a key.

    It keeps what it was asked for, so that a label of nothing shown is refused.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        """Take labels: `{"cubic": "CUBIC"}`, or `{"cc=cubic": …}` where two keys have that value."""
        if not isinstance(labels, Mapping):
            raise InputError(f"label: found {labels!r}; expected names of values, such as cubic: CUBIC")
        self._labels = labels
        self._shown: dict[tuple[str, str], str] = {}

    def of(self, key: str, value: object, otherwise: str) -> str:
        """Return what a value of a key is called; `otherwise` where no label names it."""
        text = NONE if value is None else str(value)
        name = next((name for label, name in self._labels.items() if _fits(label, key, text)), otherwise)
        self._shown[key, text] = name
        return name

    def check(self) -> None:
        """Raise InputError for a label that names no value shown or two, and for values called alike."""
        for label in self._labels:
            keys = [key for key, text in self._shown if _fits(label, key, text)]
            if not self._shown:
                raise InputError(f"label: {label!r} names nothing; no value is named here")
            if not keys:
                raise unknown("label", label, (text for _, text in self._shown))
            if len(keys) > 1:
                raise InputError(f"label: {label} is a value of {' and of '.join(keys)}; write KEY={label}")
        called: dict[tuple[str, str], str] = {}
        for (key, text), name in self._shown.items():
            other = called.setdefault((key, name), text)
            if other != text and self._labels:
                raise InputError(f"label: {other} and {text} would both be called {name}")


def _fits(label: str, key: str, text: str) -> bool:
    """Whether a label is of a value: it is the value, or `KEY=` and the value, KEY the key or its end."""
    if label == text:
        return True
    named = label.removesuffix(f"={text}")
    return named not in ("", label) and f".{key}".endswith(f".{named}")
