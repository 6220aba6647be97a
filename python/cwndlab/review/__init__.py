"""Two congestion controls on the same paths, and whether they differ: `cwndlab review`."""

from __future__ import annotations

from cwndlab.review.carrying_out import Review, carry_out
from cwndlab.review.sides import Sides, sides
from cwndlab.review.words import text

__all__ = ["Review", "Sides", "carry_out", "sides", "text"]
