"""How values and differences of a metric are written: its unit and its digits."""

import math

from cwndlab.analysis.comparison import Comparison
from cwndlab.results import columns


def unit_of(found: Comparison) -> str:
    """The unit of a difference; of a metric in per cent that is points."""
    unit = columns.describe(found.metric).unit
    unit = "points" if unit == "%" else unit
    return f" {unit}" if unit else ""


def digits(value: float) -> str:
    """Two decimals, of small numbers two digits, of large ones three; no exponent."""
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else "∞"
    magnitude = math.floor(math.log10(value))
    decimals = max(0, 2 - magnitude) if magnitude >= 0 else min(6, 1 - magnitude)
    return f"{value:.{min(decimals, 2) if magnitude >= -1 else decimals}f}"
