"""A package of somebody else: a format, read and written, and a kind of plot.

A file of the format is the line `rounds 1`, then lines of `SECONDS CWND_BYTES`.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from cwndlab.errors import InputError
from cwndlab.formats import series
from cwndlab.formats.base import Recording
from cwndlab.report.plots import paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds.logs.connections import Flow

NAME = "rounds"

HEAD = "rounds 1\n"


def recognises(head: bytes) -> bool:
    return head.startswith(HEAD.encode())


def read(path: Path) -> list[Recording]:
    try:
        values = np.array([line.split() for line in path.read_text().splitlines()[1:]], dtype=np.float64)
        seconds, cwnd = values.T
    except ValueError:
        raise InputError(f"{path}: expected lines of SECONDS CWND_BYTES") from None
    flow = Flow("f1", (seconds * 1e9).astype(np.int64), {"cwnd_bytes": cwnd})
    return [series.recording(NAME, path, path.name, [flow], zero_ns=0)]


def write(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    file = out / f"{run}.rounds"
    rows = results.series(run).select("t_s", "cwnd_bytes").rows()
    file.write_text(HEAD + "".join(f"{t_s:g} {cwnd}\n" for t_s, cwnd in rows))
    yield file


def draw(selection: Selection) -> Plot:
    """A step for each change of cwnd."""
    (run,), note = selection.runs()
    rows = selection.results.series(run.run_id).select("t_s", "cwnd_bytes")
    figure, (axis,) = paint.canvas(selection.options)
    axis.step(rows["t_s"], rows["cwnd_bytes"])
    figure.data = pl.DataFrame(rows)
    paint.finish(figure, [axis], selection.options, "cwnd in steps", note)
    return figure
