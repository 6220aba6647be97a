"""Linux in virtual time: records experiments with a kernel, and plays the same files on the model.

An experiment in `linux-kernel/` says all of a recording but the kernel. `NAME.csv` has of each run and flow
what the summary says, `NAME-RUN.csv.gz` the senders' state of each cell's first run: ten times a second, and
of the first five seconds a hundred times.
"""

import csv
import gzip
import io
import json
import statistics
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
import yaml

import cwndlab
from cwndlab import _native
from cwndlab.contract.summary import FlowSummary, Summary
from cwndlab.errors import CwndlabError, InputError
from cwndlab.experiment.plan import Plan
from cwndlab.results import files
from tools.truth.fidelity.recordings import Cell, Metrics, Recording

FOLDER = "linux-kernel"
"""Folder of the experiments and of what was recorded of them."""
KERNEL = "kernel"
"""Column of a table that names the recorded kernel."""
DENSE_NS, DENSE_STEP_NS, STEP_NS = 5_000_000_000, 10_000_000, 100_000_000
"""Up to when a series has a row every so often, and how often later."""
SERIES = ("cwnd_bytes", "ssthresh_bytes", "srtt_ns", "inflight_bytes", "delivered_bytes", "retransmits")


def record(file: Path, kernel: str, out: Path, jobs: int) -> list[Path]:
    """Carry out an experiment with a kernel; write its table and series into `out`, and return the files.

    Raises InputError for a file or a kernel that cannot be, CwndlabError where a run failed.
    """
    with TemporaryDirectory() as scratch:
        experiment = cwndlab.load(file, kernel=kernel)
        made = experiment.run(out=Path(scratch) / "out", kernel=kernel, jobs=jobs)
        records = list(made.records())
        rows: list[dict[str, object]] = []
        for each in records:
            if each.summary is None:
                raise CwndlabError(f"{file}: run {each.run_id} failed: {each.error}")
            release = each.versions["kernel"].partition(",")[0]
            place = {"run": each.run_id, "repeat": each.repeat, KERNEL: release, **each.cell}
            rows += [place | {"flow": flow["flow"]} | metrics(flow) for flow in each.summary["flows"]]
        text = io.StringIO()
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        written = {out / f"{file.stem}.csv": text.getvalue().encode()}
        for each in records:
            if each.repeat == 0:
                data = gzip.compress(_series(made.rows(each.run_id)), mtime=0)
                written[out / f"{file.stem}-{each.run_id}.csv.gz"] = data
    for path, data in written.items():
        files.save(path, data)
    return list(written)


def metrics(flow: FlowSummary) -> dict[str, float]:
    """Metrics of a flow that are compared, by the names of `compare.BOUNDS`."""
    bytes_a_second = flow["goodput_bytes"] * 1_000_000_000 / (flow["active_ns"] or 1)
    return {
        "goodput": round(bytes_a_second * 8 / 1e6, 4),
        "retransmits": flow["retransmits"],
        "recoveries": flow["fast_recoveries"],
        "cwnd": flow["cwnd_mean_bytes"] or 0,
    }


def _series(table: pa.Table) -> bytes:
    """Some rows of the senders' state: those of DENSE_STEP_NS first, and of STEP_NS."""
    at = pl.col("t_ns")
    rows = pl.DataFrame(pl.from_arrow(table))
    wanted = (at % STEP_NS == 0) | ((at < DENSE_NS) & (at % DENSE_STEP_NS == 0))
    return rows.filter(wanted).select("t_ns", "flow", *SERIES).write_csv().encode()


def recordings(directory: Path) -> Iterator[Recording]:
    """Every cell and flow recorded; raises InputError where a table does not fit its experiment."""
    for table in sorted((directory / FOLDER).glob("*.csv")):
        file = table.with_suffix(".yaml")
        with table.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        if not file.is_file():
            raise InputError(f"{table}: no experiment {file.name} beside it")
        groups: dict[tuple[int, str], list[dict[str, str]]] = defaultdict(list)
        for row in rows:
            groups[int(row["run"]) - int(row["repeat"]), row["flow"]].append(row)
        for (first, flow), members in groups.items():
            yield _recording(file, first, flow, members)


def _recording(file: Path, first: int, flow: str, rows: list[dict[str, str]]) -> Recording:
    names = ("goodput", "retransmits", "recoveries", "cwnd")
    fixed = ("run", "repeat", KERNEL, "flow", *names)
    try:
        drawn = {name: tuple(float(row[name]) for row in rows) for name in names}
    except (KeyError, ValueError) as error:
        raise InputError(f"{file.with_suffix('.csv')}: run {first}: {error}") from None
    label = " ".join([*(_words(value) for key, value in rows[0].items() if key not in fixed), flow])
    runs = tuple(int(row["run"]) for row in rows)
    stack = f"linux-{'.'.join(rows[0][KERNEL].split('.')[:2])}"
    cell = Cell(file, runs, flow, stack, drawn)
    recorded = {name: statistics.fmean(each) for name, each in drawn.items()}
    key, group = f"kernel {file.stem} {first} {flow}", f"{stack}, {file.stem}"
    return Recording(key, "kernel", group, label, False, cell, recorded)


def _words(value: str) -> str:
    """A cell's value as a few words: `pfifo 50p` of `{kind: pfifo, limit: 50p}`."""
    read = yaml.safe_load(value)
    return " ".join(map(str, read.values())) if isinstance(read, dict) else value


def measure(cell: Cell, draw: int) -> Metrics:
    """The model's metrics in one of a cell's repeats, of one flow."""
    flows = _played(cell.file, cell.runs[draw])["flows"]
    return next(metrics(flow) for flow in flows if flow["flow"] == cell.flow)


@cache
def _plan(file: Path) -> Plan:
    return cwndlab.load(file).plan()


def _begun(file: Path, run: int) -> _native.Simulation:
    """A run of an experiment on the model. Links between network namespaces are veths, and netem delays their
    packets before it hands them to a queue.
    """
    scenario = _plan(file).runs[run].scenario
    hosts = [host | {"nic": host["nic"] | {"veth": True}} for host in scenario["hosts"]]
    links = [link | {"delay_first": link["jitter"] is None} for link in scenario["links"]]
    return _native.Simulation(json.dumps(scenario | {"hosts": hosts, "links": links}), 0)


def series(file: Path, run: int) -> pl.DataFrame:
    """The model's rows of the senders' state in a run of an experiment."""
    simulation = _begun(file, run)
    batches: list[pa.RecordBatch] = []
    over = False
    while not over:
        over = simulation.advance(1 << 18)
        batches += [pa.record_batch(batch) for kind, batch in simulation.take() if kind == "tcp"]
    return pl.DataFrame(pl.from_arrow(pa.Table.from_batches(batches)))


@cache
def _played(file: Path, run: int) -> Summary:
    """The model's summary of a run of an experiment."""
    simulation = _begun(file, run)
    while not simulation.advance(1 << 18):
        simulation.take()
    summary: Summary = json.loads(simulation.summary())
    return summary
