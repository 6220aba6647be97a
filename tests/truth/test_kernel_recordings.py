"""Recordings of Linux in virtual time: how they are made and read, and how near the model is."""

import csv
import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from cwndlab.errors import InputError
from tools.truth import fidelity
from tools.truth.fidelity import kernel
from tools.truth.fidelity.compare import Check, Row, compare
from tools.truth.fidelity.recordings import Recording

MODEL = """\
experiment: short
duration: 6s
hosts: {a: {stack: linux-6.12, cc: reno}, b: {stack: linux-6.12}}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {rate: 2mbit, delay: 10ms, queue: {kind: pfifo, limit: 20p}}
flows: [{name: f, from: a, to: b}]
record: {tcp: 10ms}
repeat: 2
"""


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return fidelity.evaluate(list(kernel.recordings(fidelity.GROUNDTRUTH)))


def written(folder: Path, goodput: tuple[float, ...], name: str = "short") -> Path:
    """A directory with a table of two repeats; returns it."""
    place = folder / kernel.FOLDER
    place.mkdir(exist_ok=True)
    (place / "short.yaml").write_text(MODEL, encoding="utf-8")
    lines = ["run,repeat,kernel,flow,goodput,retransmits,recoveries,cwnd"]
    lines += [f"{run},{run},6.12.117,f,{each},9,2,30000" for run, each in enumerate(goodput)]
    (place / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_repeats_of_a_cell_are_one_recording(tmp_path: Path) -> None:
    (found,) = kernel.recordings(written(tmp_path, (1.5, 1.7)))
    assert found.metrics == {"goodput": pytest.approx(1.6), "retransmits": 9, "recoveries": 2, "cwnd": 30000}
    assert (found.group, found.kind) == ("linux-6.12, short", "kernel")


@pytest.mark.parametrize(("run", "until_ms"), [(0, 1340), (2, 460)])
def test_the_beginning_is_the_kernels_to_the_packet(run: int, until_ms: int) -> None:
    """Window and flight each 10 ms: CUBIC with its first recovery, Reno until the writer is short of room."""
    folder = fidelity.GROUNDTRUTH / kernel.FOLDER
    with gzip.open(folder / f"one-flow-{run}.csv.gz", "rt", encoding="utf-8") as lines:
        recorded = list(csv.DictReader(lines))
    ours = kernel.series(folder / "one-flow.yaml", run).rows_by_key("t_ns", named=True, unique=True)
    times = [int(row["t_ns"]) for row in recorded]
    looked = {
        at: row for at, row in zip(times, recorded, strict=True) if 70_000_000 <= at <= until_ms * 1_000_000
    }
    assert len(looked) == until_ms // 10 - 6
    for at, row in looked.items():
        mine = ours[at]
        assert [mine[key] for key in ("cwnd_bytes", "inflight_bytes")] == [
            int(row[key]) for key in ("cwnd_bytes", "inflight_bytes")
        ], at


def test_a_flow_is_held_against_the_model_of_the_same_file(tmp_path: Path) -> None:
    (found,) = kernel.recordings(written(tmp_path, (1.5, 1.7)))
    (row,) = fidelity.evaluate([found])
    ours = {check.name: check.ours for check in row.checks}
    assert set(ours) == {"goodput", "retransmits", "recoveries", "cwnd"}
    assert 1.8 < ours["goodput"] < 1.94
    assert [check.within for check in row.checks if check.name == "goodput"] == [False]
    same = Recording(found.key, found.kind, found.group, found.label, found.proxy, found.what, ours)
    assert fidelity.evaluate([same])[0].within


def test_draws_that_scatter_are_judged_by_their_spread(tmp_path: Path) -> None:
    """Means of ten draws decide nothing where chance brings them so far apart, unless ours scatter more."""
    recorded = [1.0, 1.9, 1.2, 1.7, 1.4, 1.5, 1.1, 1.8, 1.3, 1.6]
    (found,) = kernel.recordings(written(tmp_path, tuple(recorded)))

    def goodput(ours: list[float], recording: Recording = found) -> Check:
        rest = {name: value for name, value in found.metrics.items() if name != "goodput"}
        row = compare(recording, [rest | {"goodput": each} for each in ours], None)
        return next(check for check in row.checks if check.name == "goodput")

    apart = [0.3, -0.1, 0.2, -0.2, 0.3, 0.1, -0.1, 0.2, 0.1, 0.0]
    near = goodput([theirs + off for theirs, off in zip(recorded, apart, strict=True)])
    assert near.ours == pytest.approx(1.53) and not near.within
    # The mean of the differences, 0.08, has a standard error of 0.0554.
    assert near.chance == pytest.approx(2.262 * 0.0554, rel=0.01)
    assert goodput(recorded).chance is None, "within the bound itself"
    assert goodput([each + 0.08 for each in recorded]).chance is None, "every draw is off alike"
    wild = goodput([1.45 + 3 * (each - 1.45) + 0.08 for each in recorded])
    assert (wild.within, wild.chance) == (False, None)
    (tmp_path / kernel.FOLDER / "short.csv").unlink()
    (few,) = kernel.recordings(written(tmp_path, tuple(recorded[:9])))
    nine = [theirs + off for theirs, off in zip(recorded[:9], apart[:9], strict=True)]
    assert goodput(nine, few).chance is None


def test_a_table_needs_its_experiment_and_its_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"other\.csv: no experiment other\.yaml beside it"):
        list(kernel.recordings(written(tmp_path, (1.5, 1.7), name="other")))
    (tmp_path / kernel.FOLDER / "other.csv").unlink()
    table = written(tmp_path, (1.5, 1.7)) / kernel.FOLDER / "short.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("cwnd", "window"), encoding="utf-8")
    with pytest.raises(InputError, match=r"short\.csv: run 0: 'cwnd'"):
        list(kernel.recordings(tmp_path))


def test_every_recording_is_whole_and_small() -> None:
    folder = fidelity.GROUNDTRUTH / kernel.FOLDER
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2 << 20
    for experiment in folder.glob("*.yaml"):
        table = list(csv.DictReader(experiment.with_suffix(".csv").read_text("utf-8").splitlines()))
        for row in table:
            if row["repeat"] == "0":
                series = folder / f"{experiment.stem}-{row['run']}.csv.gz"
                lines = gzip.decompress(series.read_bytes()).decode().splitlines()[1:]
                times = [int(line.split(",")[0]) for line in lines]
                late = sorted({at for at in times if at >= kernel.DENSE_NS})
                early = sorted({at for at in times if at < kernel.DENSE_NS})
                for step, rows in ((kernel.DENSE_STEP_NS, early), (kernel.STEP_NS, late)):
                    assert {after - before for before, after in pairwise(rows)} == {step}


@pytest.mark.slow
def test_the_model_is_within_bounds_but_where_a_note_says_what_is_open(rows: list[Row]) -> None:
    outside = {row.recording.key for row in rows if not row.within and not row.by_chance}
    noted = {key for key in fidelity.notes() if key.startswith("kernel ")}
    assert all(row.error is None for row in rows)
    assert outside == noted, "a row that is within its bounds now needs no note, and one that left them does"
