"""Sizes of a plot: for a paper or a slide, in columns of a journal, or in millimetres."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cwndlab.errors import InputError

_MM = 25.4
"""Millimetres of an inch."""

_PLAIN = re.compile(r"(\d+(?:\.\d+)?)(?:x(\d+(?:\.\d+)?))?mm")


@dataclass(frozen=True)
class Size:
    """Size of a plot for its purpose, in inches, points and dots."""

    width: float
    height: float
    """Height of a single panel, in inches."""
    points: float
    """Size of the type, in points."""
    line: float
    """Width of a line in points."""
    dpi: int
    """Dots per inch of a PNG."""
    highest: float
    """Greatest height of a plot of several panels, in inches."""
    grows: bool = True
    """Whether legends and notes make the plot higher; else they take of the panels' room."""


SIZES = {
    "paper": Size(6.5, 3.4, 9.0, 1.0, 200, 9.0),
    "slide": Size(12.8, 7.2, 18.0, 2.0, 100, 7.2, grows=False),
    "1col": Size(88 / _MM, 60 / _MM, 8.0, 0.9, 300, 220 / _MM),
    "2col": Size(181 / _MM, 85 / _MM, 8.0, 0.9, 300, 220 / _MM),
}
"""The sizes with a name; `1col` and `2col` are the widths of one and two columns of an IEEE or ACM paper."""


def parse(text: str) -> Size:
    """The size that a text names: `paper`, `slide`, `1col`, `2col`, `88mm` or `88x60mm`."""
    if text in SIZES:
        return SIZES[text]
    found = _PLAIN.fullmatch(text)
    if found is None:
        raise InputError(f"size: found {text!r}; expected {', '.join(SIZES)}, 88mm or 88x60mm")
    width = float(found[1]) / _MM
    height = float(found[2]) / _MM if found[2] else 0.62 * width
    if not (30 <= width * _MM <= 2000 and 20 <= height * _MM <= 2000):
        raise InputError(f"size: {text} cannot be drawn; 30 to 2000 mm wide, 20 to 2000 mm high")
    points = 8.0 if width < 5 else 9.0
    return Size(width, height, points, 0.9, 300, height if found[2] else 220 / _MM, grows=not found[2])
