"""The impairments of packets, on a link or at a host: loss and jitter."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import model_validator

from cwndlab.errors import shown
from cwndlab.experiment.schema.leaves import Flag, Share, Text, Time, byte_count, integer, word
from cwndlab.experiment.schema.section import OneOf, Section, about, required
from cwndlab.experiment.units import BadValue


class Match(Section):
    """Packets that a rule is about."""

    section: ClassVar[str] = "match"
    dport: Annotated[int, *integer(1, 65535)] | None = about("destination port")
    sport: Annotated[int, *integer(1, 65535)] | None = about("source port")
    min_payload: Annotated[int, *byte_count(0, 65535)] | None = about("payload bytes at least")


class NthLoss(Section):
    """Every n-th packet, as iptables' statistic module counts."""

    section: ClassVar[str] = "nth"
    every: Annotated[int, *integer(1, 1_000_000_000)] = required("period in packets")
    packet: Annotated[int, *integer(0, 999_999_999)] = about(
        "phase: which of the period is lost; 0 is the first", 0
    )
    min_payload: Annotated[int, *byte_count(0, 65535)] = about(
        "count and lose only packets with so many payload bytes", 0
    )
    match: Match | None = about("count and lose only these packets")

    @model_validator(mode="after")
    def _within_period(self) -> NthLoss:
        if self.packet >= self.every:
            raise BadValue(
                shown(str(self.packet)), f"a packet of the period: 0 to {self.every - 1}", key="packet"
            )
        return self


class GilbertLoss(Section):
    """Two-state Gilbert-Elliott chain, as netem's ``loss gemodel p r 1-h 1-k``."""

    section: ClassVar[str] = "gilbert"
    p: Share = required("chance to go from the good to the bad state, per packet")
    r: Share = required("chance to go from the bad to the good state, per packet")
    loss_bad: Share = about("loss in the bad state", 10**9)
    loss_good: Share = about("loss in the good state", 0)


class Loss(OneOf):
    """Loss of packets before the queue."""

    section: ClassVar[str] = "loss"
    random: Share | None = about("each packet independently")
    nth: NthLoss | None = about("every n-th packet")
    gilbert: GilbertLoss | None = about("bursts: Gilbert-Elliott chain")
    packets: list[Annotated[int, *integer(0, 10**18)]] | None = about(
        "exactly these packets, counted from 0", alias="list"
    )


class Jitter(Section):
    """Variation of a link's delay."""

    section: ClassVar[str] = "jitter"
    kind: Annotated[str, *word("uniform", "normal", "pareto", "file")] = about("distribution", "normal")
    sd: Time | None = about("standard deviation")
    reorder: Flag = about("whether packets may overtake each other", False)
    file: Text | None = about("distribution table as tc netem reads it, beside the experiment")
