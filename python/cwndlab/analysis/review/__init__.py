"""Two congestion controls, or two kernels, on the same paths, and whether they differ: `compare --cc`."""

from __future__ import annotations

from cwndlab.analysis.review.runs import Review, carry_out
from cwndlab.analysis.review.sides import Sides, kernels, modelled, of_kernel, sides, single
from cwndlab.analysis.review.words import text

__all__ = ["Review", "Sides", "carry_out", "kernels", "modelled", "of_kernel", "sides", "single", "text"]
