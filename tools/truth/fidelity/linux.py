"""Metrics of a recording of Linux, whose sender was looked at now and then."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from cwndlab.errors import InputError

WARM_UP_S = 20.0
"""Before this, seconds since ESTABLISHED, nothing counts for periods, peaks and troughs."""

LINUX_RUN_S = 90.0
"""How long the recorded application sent."""

LINUX_CUT = 0.85
"""A fall of the window to less than this share of its last maximum is a reduction."""

Metrics = dict[str, float]
Floats = npt.NDArray[np.float64]


def linux_metrics(path: Path) -> Metrics:
    """The same metrics of a recording of Linux; raises InputError where the file is none."""
    try:
        rows = pl.read_csv(path, infer_schema_length=None)
        seconds = rows["t_s"].to_numpy().astype(np.float64)
        # What is acknowledged after the last write is not part of the run.
        sending = rows.filter(pl.col("t_s") <= LINUX_RUN_S)
        return {
            "goodput": float(sending["bytes_acked"][-1]) * 8 / float(sending["t_s"][-1]) / 1e6,
            "period": mean_period(seconds, rows["cwnd_segments"].to_numpy().astype(np.float64)),
            "retransmits": float(rows["retransmits"][-1]),
        }
    except (pl.exceptions.PolarsError, OSError, IndexError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())[:120]}") from None


def mean_period(seconds: Floats, cwnd: Floats) -> float:
    """Mean seconds between reductions after the warm-up; 0: none. Over whole pairs: CUBIC's epochs alternate.

    A reduction is a fall by more than 15 % from the last maximum, and is over when the window grows again.
    """
    late = [at for at in _cuts(seconds, cwnd) if at > WARM_UP_S]
    intervals = (len(late) - 1) // 2 * 2
    return (late[intervals] - late[0]) / intervals if intervals > 0 else 0.0


def _cuts(seconds: Floats, cwnd: Floats) -> list[float]:
    """When reductions begin. Looks are every 0.13 s: some hundreds of them, not packets."""
    cuts: list[float] = []
    at, top, falling = 0.0, 0.0, False
    for t, window in zip(seconds.tolist(), cwnd.tolist(), strict=True):
        if window >= top:
            falling = falling and window == top
        elif not falling:
            if window >= top * LINUX_CUT:
                continue
            cuts.append(at)
            falling = True
        at, top = t, window
    return cuts
