"""Results in the formats of other tools: what those tools read of them, and what comes back."""

import gzip
import itertools
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import cwndlab
from cwndlab.errors import InputError
from cwndlab.formats import exporters, importers
from cwndlab.formats.capture import Options
from cwndlab.results.resultset import ResultSet
from experiments import dumbbell
from patience import PATIENCE

EXPERIMENT = dumbbell(
    "export",
    duration="8s",
    a="stack: freebsd-13, cc: cubic",
    b="stack: freebsd-13",
    bottleneck="rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 40p}, loss: {random: 0.2%}",
    access="100mbit",
    more="""\
  - {name: f2, from: a, to: b, app: bulk, start: 2s}
sweep: [{network.dumbbell.bottleneck.rate: [10mbit, 5mbit]}]
repeat: 1
record: {tcp: 10ms, queue: 10ms}
""",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    return cwndlab.load(EXPERIMENT).run(out=tmp_path_factory.mktemp("export") / "results")


def files(results: ResultSet, form: str, out: Path) -> list[Path]:
    return list(exporters.export(results, form, out))


def test_text_holds_every_row(results: ResultSet, tmp_path: Path) -> None:
    written = files(results, "csv", tmp_path / "out")
    assert (tmp_path / "out" / "summary.csv").read_bytes() == (results.path / "summary.csv").read_bytes()
    for run in results.runs["run_id"].to_list():
        for table in ("tcp", "queue", "events", "samples"):
            frame = results.series(run, table=table)
            back = pl.read_csv(tmp_path / "out" / f"{run}-{table}.csv", infer_schema_length=None)
            assert back.columns == frame.columns and back.height == frame.height
            for column in frame.columns:
                ours = (
                    frame[column].cast(pl.String)
                    if column in ("flow", "hop", "kind", "state")
                    else frame[column]
                )
                assert ours.to_list() == back[column].to_list(), column
    assert len(written) == 1 + 2 * 4


def test_parquet_holds_what_is_recorded(results: ResultSet, tmp_path: Path) -> None:
    files(results, "parquet", tmp_path / "out")
    for run in results.runs["run_id"].to_list():
        back = pq.read_table(tmp_path / "out" / f"{run}-tcp.parquet")
        assert back.to_pylist() == results.rows(run).to_pylist()


def test_siftr_comes_back(results: ResultSet, tmp_path: Path) -> None:
    logs = files(results, "siftr", tmp_path / "out")
    back = importers.results(logs, Options(), tmp_path / "back")
    for index, run in enumerate(results.runs["run_id"].to_list()):
        flows = back.summary.filter(pl.col("run_id").str.starts_with(f"{index}-"))["flow"].to_list()
        first = results.series(run)["t_s"][0]
        for name, flow in zip(("f1", "f2"), flows, strict=True):
            ours, theirs = results.series(run, flow=name), back.series(index, flow=flow)
            assert theirs["cwnd_bytes"].to_list() == ours["cwnd_bytes"].to_list()
            assert theirs["ssthresh_bytes"].to_list() == ours["ssthresh_bytes"].to_list()
            assert theirs["inflight_bytes"].to_list() == ours["inflight_bytes"].to_list()
            # To the microsecond, as SIFTR writes.
            assert np.allclose(theirs["t_s"], ours["t_s"] - first, atol=1e-6)
            srtt = ours["srtt_ms"].to_numpy()
            assert np.allclose(theirs["srtt_ms"].to_numpy(), srtt, atol=1e-3, equal_nan=True)
            recovering = ours["state"].cast(pl.String).is_in(["recovery", "loss", "cwr"])
            assert (theirs["state"].cast(pl.String) == "recovery").to_list() == recovering.to_list()


@pytest.mark.slow
def test_flents_own_viewer_reads_it(results: ResultSet, tmp_path: Path) -> None:
    viewer = shutil.which("flent")
    assert viewer, "flent is not installed: `make test` does that"
    data = files(results, "flent", tmp_path / "out")
    for file, run in zip(data, results.runs["run_id"].to_list(), strict=True):
        table = tmp_path / "table.csv"
        command = [viewer, "-f", "csv", "-o", str(table), "-i", str(file)]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE, env=environment)
        frame = pl.read_csv(table, infer_schema_length=None)
        assert {"TCP upload::1", "TCP upload::2", "TCP upload sum", "Ping (ms) ICMP"} <= set(frame.columns)
        for number, name in ((1, "f1"), (2, "f2")):
            delivered = results.series(run, flow=name)["delivered_bytes"]
            megabits = frame[f"TCP upload::{number}"].sum() * 0.2
            assert megabits == pytest.approx(delivered[-1] * 8e-6, rel=1e-3)
        rtt = results.series(run)["rtt_ms"].drop_nulls()
        assert rtt.min() <= frame["Ping (ms) ICMP"].min() and frame["Ping (ms) ICMP"].max() <= rtt.max()
        said = subprocess.run(
            [viewer, "-f", "summary", "-i", str(file)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
            check=False,
        )
        assert said.returncode == 0 and "TCP upload sum" in said.stdout and run in said.stdout


def test_flent_comes_back(results: ResultSet, tmp_path: Path) -> None:
    data = files(results, "flent", tmp_path / "out")
    back = importers.results(data, Options(), tmp_path / "back")
    assert back.runs.height == 2
    for index, run in enumerate(results.runs["run_id"].to_list()):
        for number, name in ((1, "f1"), (2, "f2")):
            ours = results.series(run, flow=name)["delivered_bytes"][-1]
            theirs = back.series(index, flow=f"TCP upload::{number}")
            assert theirs["delivered_bytes"][-1] == pytest.approx(ours, rel=1e-3)
            assert theirs["cwnd_bytes"].max() <= results.series(run, flow=name)["cwnd_bytes"].max() + 1
    # Equal results are equal bytes.
    again = files(results, "flent", tmp_path / "again")
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in data]
    content = json.loads(gzip.decompress(data[0].read_bytes()))
    assert content["version"] == 4 and len({len(values) for values in content["results"].values()}) == 1


def test_xplot_draws_what_happened(results: ResultSet, tmp_path: Path) -> None:
    graphs = files(results, "xplot", tmp_path / "out")
    assert len(graphs) == 4
    run = results.runs["run_id"][0]
    lines = graphs[0].read_text().splitlines()
    assert lines[0] == "timeval unsigned" and lines[1:3] == ["title", f"{run} f1"] and lines[-1] == "go"
    # A green staircase from the first to the last acknowledged byte, every step where the one before ended.
    green = lines[lines.index("green") + 1 :]
    steps = [
        line.split()[1:]
        for line in green[: next(n for n, line in enumerate(green) if not line.startswith("line"))]
    ]
    assert all(before[2:] == after[:2] for before, after in itertools.pairwise(steps))
    series = results.series(run, flow="f1")
    assert int(steps[-1][3]) == series["delivered_bytes"][-1]
    marked = sum(line.startswith("rtext") for line in lines)
    assert marked == int((series["retransmits"].diff().fill_null(0) > 0).sum()) > 0


def test_what_cannot_be_exported_is_one_line(results: ResultSet, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean siftr"):
        files(results, "siftrr", tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(InputError, match="not empty"):
        files(results, "csv", tmp_path / "full")
    with pytest.raises(InputError, match="does not exist"):
        list(exporters.export(results, "csv", tmp_path / "one", ["7"]))
    one = list(exporters.export(results, "xplot", tmp_path / "one", ["1"]))
    assert [file.name[:2] for file in one] == ["1-", "1-"]


def test_flent_names_the_flows_in_their_order(tmp_path: Path) -> None:
    """The flow that begins last in time is the first of the experiment."""
    text = EXPERIMENT.replace("{name: f1, from: a, to: b, app: bulk}", "{name: z, from: a, to: b, start: 3s}")
    text = text.replace("sweep: [{network.dumbbell.bottleneck.rate: [10mbit, 5mbit]}]\n", "")
    results = cwndlab.load(text).run(out=tmp_path / "results")
    (file,) = files(results, "flent", tmp_path / "out")
    content = json.loads(gzip.decompress(file.read_bytes()))
    meta = content["metadata"]["SERIES_META"]
    assert [meta[f"TCP upload::{number}"]["FLOW"] for number in (1, 2)] == ["z", "f2"]
    assert meta["TCP upload::1"]["FROM"] == "a" and meta["TCP upload::1"]["TO"] == "b"
    assert "FLOW" not in meta["TCP upload sum"]
    first = next(
        x for x, y in zip(content["x_values"], content["results"]["TCP upload::1"], strict=True) if y
    )
    assert first > 3


def test_what_flent_sampled_of_a_socket_is_no_flow(tmp_path: Path) -> None:
    content = {
        "version": 4,
        "metadata": {"NAME": "tcp_nup"},
        "x_values": [0.2, 0.4, 0.6],
        "results": {
            "TCP upload::10": [8.0, 8.0, 8.0],
            "TCP upload::10::tcp_cwnd": [10, None, 12],
            "TCP upload::10::tcp_rtt": [131.0, 131.5, 132.0],
            "TCP upload::10::tcp_pacing_rate": [9.0, 9.0, 9.0],
            "TCP upload::10::tcp_rtt_var": [1.0, 1.0, 1.0],
            "TCP upload sum": [8.0, 8.0, 8.0],
        },
        "raw_values": {},
    }
    file = tmp_path / "data.flent"
    file.write_text(json.dumps(content))
    back = importers.results([file], Options(), tmp_path / "back")
    assert back.summary["flow"].to_list() == ["TCP upload::10"]
    assert back.summary["goodput_mbps"].to_list() == [8.0]
    series = back.series(0)
    assert series["cwnd_bytes"].to_list() == [14480, None, 17376]
    assert series["srtt_ms"].to_list() == [131.0, 131.5, 132.0]
    assert series["pacing_bps"].to_list() == [9_000_000] * 3
