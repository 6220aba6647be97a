"""The form of values and differences of a metric: its unit and its digits."""

import math

from cwndlab.analysis.comparison import Comparison
from cwndlab.results import columns


def unit_of(found: Comparison) -> str:
    """The unit of a difference; of a metric in per cent that is points."""
    unit = columns.describe(found.metric).unit
    unit = "points" if unit == "%" else unit
    return f" {unit}" if unit else ""


ALL = 100.0
"""Per cent that are all there is: nothing less is written as it."""


def digits(value: float) -> str:
    """Two decimals, of small numbers two digits, of large ones three; no exponent."""
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else "∞"
    magnitude = math.floor(math.log10(value))
    decimals = max(0, 2 - magnitude) if magnitude >= 0 else min(6, 1 - magnitude)
    text = f"{value:.{min(decimals, 2) if magnitude >= -1 else decimals}f}"
    return f"{min(value, ALL - 0.01):.2f}" if value < ALL <= float(text) else text


def ratio(change: float) -> str:
    """The ratio that a change by a share makes; close to 1 with two digits of the change."""
    if not -0.5 < change < 1:
        return digits(1 + change)
    return f"{1 + change:.{min(6, 1 - math.floor(math.log10(abs(change))))}f}"
