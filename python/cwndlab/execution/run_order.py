"""The order in which runs that take real time are carried out: randomised blocks, or as listed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cwndlab.experiment.plan import Plan

if TYPE_CHECKING:
    from cwndlab.experiment.schema import Spec  # a worker does without: it takes longer to load than all else

PAUSE_NS = 1_000_000_000
"""Settle time between two runs unless the experiment sets `pause`."""
SET_UP_NS = 3_000_000_000
"""Assumed time of a run in real time besides its length and the pause, in ns: namespaces, programs, idle
ping.
"""


@dataclass(frozen=True)
class Order:
    """Places of runs in the order they are carried out."""

    positions: Mapping[int, int]
    """Place of each run in the order, from 0, by index in the plan."""
    pause_ns: int
    """Settle time between two runs."""


def arrange(spec: Spec, plan: Plan) -> Order:
    """The order of a plan, by its seed alone.

    A block is one repeat of every cell, in random order (a randomised complete block design: what drifts
    slowly on the machine meets all cells alike); `order: listed` keeps the plan's order.
    """
    indices = [run.index for run in plan.runs]
    if spec.order != "listed":
        draw = random.Random(f"{spec.seed}/order")
        blocks = [[run.index for run in plan.runs if run.repeat == repeat] for repeat in range(plan.repeat)]
        for block in blocks:
            draw.shuffle(block)
        indices = [index for block in blocks for index in block]
    positions = {index: position for position, index in enumerate(indices)}
    return Order(positions, pause_ns(spec))


def pause_ns(spec: Spec) -> int:
    """The settle time between two runs."""
    return PAUSE_NS if spec.pause is None else spec.pause
