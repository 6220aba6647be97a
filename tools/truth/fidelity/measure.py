"""Runs what was recorded on the model and measures it as the recordings' description measures them."""

import json
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from cwndlab import _native
from cwndlab.contract.summary import Summary
from tools.truth.fidelity import kernel
from tools.truth.fidelity.linux import WARM_UP_S, mean_period
from tools.truth.fidelity.recordings import Cell, Metrics, Module, Recording, Run
from tools.truth.fidelity.scenario import scenario

LINUX_LOOK_NS = 130_000_000
"""How often the Linux sender was looked at, on average."""

EVENTS_PER_STEP = 1 << 18
"""Events of the engine between two collections of its rows."""


@dataclass(frozen=True)
class Tables:
    """What a run left behind."""

    tcp: pl.DataFrame
    events: pl.DataFrame
    summary: Summary


def measure(recording: Recording, draw: int) -> Metrics:
    """Metrics of the model for what was recorded; `draw` seeds everything that is drawn.

    Raises RunError where the engine fails.
    """
    if isinstance(recording.what, Module):
        return {"equal": recording.what.equal, "worst": recording.what.worst}
    if isinstance(recording.what, Cell):
        return kernel.measure(recording.what, draw)
    run = recording.what
    tables = _play(run, recording.kind, draw)
    if recording.kind == "linux":
        return _linux(run, tables)
    flow = tables.summary["flows"][0]
    flows = tables.summary["flows"] if run.hosts else [flow]
    goodput_bps = sum(each["goodput_bytes"] for each in flows) * 8 / run.duration_s
    metrics = {
        "goodput": goodput_bps / 1e6,
        "utilisation": goodput_bps * 1514 / 1448 / run.rate_bps,
        "drops": float(sum(link["drops"] for link in tables.summary["links"])),
        "rtos": float(flow["rtos"] or 0),
    }
    metrics["share"] = metrics["utilisation"]
    if recording.kind in ("bulk", "cdg"):
        metrics |= _epochs(run, tables)
    return metrics


def _play(run: Run, kind: str, draw: int) -> Tables:
    simulation = _native.Simulation(json.dumps(scenario(run, kind, draw)), 0)
    batches: dict[str, list[pa.RecordBatch]] = {"tcp": [], "events": []}
    over = False
    while not over:
        over = simulation.advance(EVENTS_PER_STEP)
        for table, batch in simulation.take():
            if table in batches:
                batches[table].append(pa.record_batch(batch))
    frames = {table: _frame(rows) for table, rows in batches.items()}
    return Tables(frames["tcp"], frames["events"], json.loads(simulation.summary()))


def _frame(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    if not batches:
        return pl.DataFrame()
    frame = pl.from_arrow(pa.Table.from_batches(batches))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _epochs(run: Run, tables: Tables) -> Metrics:
    """Period, peak and trough, with a look at the sender every `look_ms`.

    An entry is the first look that finds it in recovery, the peak is the window of the look before, the
    trough that of the first look after.
    """
    states = tables.events.filter((pl.col("kind").cast(pl.Utf8) == "state") & (pl.col("value") == 4))
    established = int(states["t_ns"][0])
    step = run.look_ms * 1_000_000
    looks = np.arange(0, round(run.duration_s * 1e9), step, dtype=np.int64)
    times = tables.tcp["t_ns"].to_numpy().astype(np.int64)
    index = np.searchsorted(times, established + looks, side="right") - 1
    looks, index = looks[index >= 0], index[index >= 0]
    cwnd = tables.tcp["cwnd_bytes"].to_numpy().astype(np.float64)[index]
    state = tables.tcp["state"].cast(pl.Utf8).is_in(["recovery", "cwr"]).to_numpy()[index]
    warm = looks[1:] >= WARM_UP_S * 1e9
    entries = np.flatnonzero(~state[:-1] & state[1:] & warm)
    exits = np.flatnonzero(state[:-1] & ~state[1:] & warm)
    if len(entries):
        exits = exits[exits > entries[0]]
    periods = np.diff(looks[entries + 1]) / 1e9
    period = float(periods.mean()) if len(periods) else 0.0
    return {
        "period": period,
        "interval": period,
        "peak": float(np.median(cwnd[entries])) if len(entries) else 0.0,
        "trough": float(np.median(cwnd[exits + 1])) if len(entries) and len(exits) else 0.0,
    }


def _linux(run: Run, tables: Tables) -> Metrics:
    times = tables.tcp["t_ns"].to_numpy().astype(np.int64)
    looks = np.arange(times[0], times[-1], LINUX_LOOK_NS)
    index = np.searchsorted(times, looks, side="right") - 1
    cwnd = tables.tcp["cwnd_bytes"].to_numpy().astype(np.float64)[index]
    flow = tables.summary["flows"][0]
    return {
        "goodput": flow["goodput_bytes"] * 8 / run.duration_s / 1e6,
        "period": mean_period(times[index] / 1e9, cwnd),
        "retransmits": float(flow["retransmits"]),
    }
