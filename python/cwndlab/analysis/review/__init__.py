"""Two congestion controls, kernels or guests on the same paths, and whether they differ: `compare --cc`."""

from __future__ import annotations

from cwndlab.analysis.review.runs import Review, carry_out
from cwndlab.analysis.review.sides import Sides, guests, kernels, modelled, of_guest, of_kernel, sides, single
from cwndlab.analysis.review.words import text

__all__ = [
    "Review",
    "Sides",
    "carry_out",
    "guests",
    "kernels",
    "modelled",
    "of_guest",
    "of_kernel",
    "sides",
    "single",
    "text",
]
