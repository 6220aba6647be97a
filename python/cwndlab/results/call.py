"""The quality of a voice call: the mean opinion score that the E-model of ITU-T G.107 estimates.

R = 93.2 - Id - Ie,eff is the rating of G.107 with its default values (section 7.7, where Ro - Is is 93.2 and
A is 0). The codec is G.711 with packet-loss concealment (G.711 Appendix I), as G.113 Appendix I has it.
"""

from __future__ import annotations

DEFAULT_RATING = 93.2
"""R without delay and loss (ITU-T G.107)."""

EQUIPMENT = 0.0
"""Ie of G.711 (ITU-T G.113 Appendix I)."""

ROBUSTNESS = 25.1
"""Bpl of G.711 with packet-loss concealment, random loss (ITU-T G.113 Appendix I)."""

SPLIT_MS = 177.3
"""Delay from which people begin to talk into each other (Cole and Rosenbluth 2001)."""


def delay_impairment(mouth_to_ear_ms: float) -> float:
    """Id: 0.024 d + 0.11 (d - 177.3) beyond 177.3 ms (Cole and Rosenbluth, Voice over IP Performance
    Monitoring, ACM CCR 31(2), 2001, equation 3), which fits the curve of G.107 up to some 400 ms."""
    return 0.024 * mouth_to_ear_ms + 0.11 * max(0.0, mouth_to_ear_ms - SPLIT_MS)


def loss_impairment(loss: float) -> float:
    """Ie,eff = Ie + (95 - Ie) Ppl / (Ppl / BurstR + Bpl), with BurstR = 1 (G.107, random loss); `loss` is a
    share from 0 to 1."""
    percent = 100 * loss
    return EQUIPMENT + (95 - EQUIPMENT) * percent / (percent + ROBUSTNESS)


def opinion_score(mouth_to_ear_ms: float, loss: float) -> float:
    """MOS, 1 to 4.5, of a call (G.107 Annex B)."""
    rating = DEFAULT_RATING - delay_impairment(mouth_to_ear_ms) - loss_impairment(loss)
    if rating <= 0:
        return 1.0
    return max(1.0, 1 + 0.035 * rating + rating * (rating - 60) * (100 - rating) * 7e-6)


def of_flow(frame_ns: int, one_way_p95_ns: float | None, loss: float | None) -> float | None:
    """The score of a flow of `voip`. None where its delay or its loss is not known.

    From mouth to ear it takes a frame, whose end the sender waits for, and as long as 95 of 100 datagrams
    take: a play-out buffer that follows the delay waits so long, and the rest counts as in time.
    """
    if one_way_p95_ns is None or loss is None:
        return None
    return opinion_score((frame_ns + one_way_p95_ns) / 1e6, min(1.0, loss))


def error(
    frame_ns: int, one_way_p95_ns: float | None, loss: float | None, off_ns: float | None
) -> float | None:
    """Error of the score of a flow whose delay is `off_ns` off at most. None where no clock is."""
    score = of_flow(frame_ns, one_way_p95_ns, loss)
    if score is None or one_way_p95_ns is None or off_ns is None:
        return None
    ends = (of_flow(frame_ns, max(0.0, one_way_p95_ns + off), loss) for off in (-off_ns, off_ns))
    return max(abs(end - score) for end in ends if end is not None)
