"""Lines of several results over each other, as a drawing for a page: small, in the page's own colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from cwndlab.analysis.numeric import Floats, envelope

WIDTH, HEIGHT = 480, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 24, 38
COLUMNS = 420
"""Number of columns of a line's envelope: those of the plot."""


@dataclass(frozen=True)
class Line:
    """A quantity over time."""

    style: str
    """Class of the line: the page's style says how it looks."""
    t_s: Floats
    y: Floats


def draw(lines: Sequence[Line], *, label: str, unit: str) -> Markup:
    """The lines in one plot with common axes, the first below the others; `label` says what is seen."""
    known = [line for line in lines if len(line.t_s) and not np.isnan(line.y).all()]
    if not known:
        return Markup("")
    end = max(float(line.t_s[-1]) for line in known) or 1.0
    top = max(float(np.nanmax(line.y)) for line in known) or 1.0
    xs, ys = _ticks(end, 6), _ticks(top * 1.05, 4)
    scale = _Scale(end, top * 1.05)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{{}}">']
    floor = HEIGHT - BOTTOM
    for tick in ys:
        y = scale.y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{y + 4.5:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    for tick in xs:
        x = scale.x(tick)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 4}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{floor + 18}" text-anchor="middle">{_number(tick)}</text>'
        )
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}"/>')
    right = f'x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end"'
    parts.append(f'<text class="tick" {right}>s</text>')
    parts.append(f'<text class="tick" x="{LEFT - 6}" y="13" text-anchor="end">{{}}</text>')
    parts += [f'<path class="over {line.style}" d="{_path(line, scale)}"/>' for line in known]
    return Markup("".join([*parts, "</svg>"])).format(label, unit)


@dataclass(frozen=True)
class _Scale:
    end: float
    top: float

    def x(self, t_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * t_s / self.end

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / self.top


def _path(line: Line, scale: _Scale) -> str:
    """The line, each value held until the next; a gap where there is none."""
    words, pen = [], "M"
    for place in envelope(line.t_s, line.y, COLUMNS):
        if math.isnan(line.y[place]):
            pen = "M"
            continue
        x, y = scale.x(float(line.t_s[place])), scale.y(float(line.y[place]))
        words.append(f"M{x:.1f} {y:.1f}" if pen == "M" else f"H{x:.1f}V{y:.1f}")
        pen = "H"
    return "".join(words)


def _ticks(top: float, count: int) -> list[float]:
    """Round values from 0 to at most `top`, about so many."""
    rough = top / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * number for number in range(math.floor(top / step) + 1)]


def _number(value: float) -> str:
    return f"{value:,.10g}".replace(",", "\u202f")
