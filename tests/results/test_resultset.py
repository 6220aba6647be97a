"""ResultSet and the table on the terminal, over a directory made without the engine."""

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cwndlab
import stored_results
from cwndlab.errors import InputError
from cwndlab.execution import resumption, store
from cwndlab.experiment.plan import PlannedRun, scenario_hash
from cwndlab.results import catalogue, display, metrics, parts, texttable
from cwndlab.testbeds import tables


def test_summary_has_the_designs_columns_and_a_row_per_flow(tmp_path):
    results = cwndlab.open(stored_results.results(tmp_path / "r"))
    named = ["run_id", "repeat", "flow", "testbed", "hosts.a.cc"]
    assert results.summary.columns == [*named, *metrics.NAMES]
    assert results.summary["hosts.a.cc"].to_list() == ["newreno", "newreno", "cubic", "cubic"]
    assert results.summary["goodput_mbps"].to_list() == [8.0, 8.1, 8.2, 8.3]
    assert results.complete
    assert results.experiment == stored_results.EXPERIMENT


def test_summary_csv_says_the_same_and_leaves_missing_metrics_empty(tmp_path):
    directory = stored_results.results(tmp_path / "r")
    read = pl.read_csv(directory / "summary.csv")
    results = cwndlab.open(directory)
    assert read.columns == results.summary.columns
    assert read["rtt_mean_ms"].to_list() == results.summary["rtt_mean_ms"].to_list()
    with (directory / "summary.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert (row["limited_cwnd_pct"], row["limited_rwnd_pct"], row["limited_sndbuf_pct"]) == (
        "75",
        "0",
        "12.5",
    )
    assert (row["response_p50_ms"], row["jain"]) == ("", "")  # a bulk flow answers nothing, and is alone


@pytest.mark.parametrize("most", [1, 5, parts.AHEAD])
def test_runs_that_are_read_together_have_their_own_rows(tmp_path, monkeypatch, most):
    directory = stored_results.results(tmp_path / "r")
    monkeypatch.setattr(parts, "AHEAD", most)
    results = cwndlab.open(directory)
    for run in (0, 1, 3, 2, 0):
        alone = results.rows(run, "tcp")
        together = results.series(run)
        assert together["cwnd_bytes"].to_list() == alone["cwnd_bytes"].to_pylist()
        assert together["t_s"].to_list() == [time / 1e9 for time in alone["t_ns"].to_pylist()]
        assert set(alone["run_id"].to_pylist()) == {run}


READ_CATALOGUE = """
import os, sys
from pathlib import Path
from cwndlab.results import catalogue

before = os.listdir("/proc/self/task")
catalogue.read(Path(sys.argv[1]))
assert os.listdir("/proc/self/task") == before
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc/self/task")
def test_a_catalogue_is_read_without_a_thread_that_holds_its_bytes_when_python_exits(tmp_path):
    directory = stored_results.results(tmp_path / "r")
    subprocess.run([sys.executable, "-c", READ_CATALOGUE, str(directory)], check=True)


def test_series_are_in_seconds_and_milliseconds(tmp_path):
    results = cwndlab.open(stored_results.results(tmp_path / "r"))
    series = results.series(2, flow="f1")
    assert series.columns == [
        "t_s",
        "flow",
        "cwnd_bytes",
        "ssthresh_bytes",
        "srtt_ms",
        "rtt_ms",
        "inflight_bytes",
        "delivered_bytes",
        "arrived_bytes",
        "retransmits",
        "pacing_bps",
        "rto_ms",
        "send_window_bytes",
        "receive_window_bytes",
        "send_buffer_bytes",
        "receive_buffer_bytes",
        "state",
    ]
    assert series["t_s"].to_list()[:3] == [0.0, 1e-6, 2e-6]
    assert series["srtt_ms"].to_list()[1] == 3e-6
    assert series["ssthresh_bytes"].to_list()[:2] == [0, None]
    assert series.height == 100
    assert results.series("2").equals(results.series(results.runs["run_id"][2]))
    assert results.series(0, table="queue").is_empty()
    assert "backlog_packets" in results.series(0, table="queue").columns


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"run_id": 9}, "run: '9' does not exist; "),
        ({"run_id": "0-ffffffff"}, "run: '0-ffffffff' does not exist; there is 0-"),
        ({"run_id": 0, "flow": "f2"}, "flow: 'f2' does not exist; there is f1"),
        ({"run_id": 0, "table": "tpc"}, "table: 'tpc' does not exist; did you mean tcp?"),
    ],
)
def test_what_does_not_exist_is_named(tmp_path, asked, message):
    results = cwndlab.open(stored_results.results(tmp_path / "r"))
    with pytest.raises(InputError) as refused:
        results.series(**asked)
    assert str(refused.value).startswith(message)


def test_records_tell_how_a_run_was_carried_out(tmp_path):
    results = cwndlab.open(stored_results.results(tmp_path / "r"))
    assert results.record(3).scenario == stored_results.scenario("cubic", 1)
    assert [record.run_id for record in results.records()] == [0, 1, 2, 3]
    results.verify()


def test_runs_not_carried_out_are_missing_not_invented(tmp_path):
    directory = stored_results.begun(tmp_path / "r", store.cut(stored_results.plan()))
    results = cwndlab.open(directory)
    assert results.summary["status"].to_list() == ["missing"] * 4
    assert results.summary["goodput_mbps"].null_count() == 4
    assert not results.complete
    assert list(results.records()) == []
    with pytest.raises(InputError, match="was not carried out"):
        results.series(0)


def test_runs_finished_before_a_sweep_was_killed_are_there(tmp_path):
    cut = store.cut(stored_results.plan(), most=1)
    directory = stored_results.begun(tmp_path / "r", cut)
    for part in (cut[2], cut[0]):
        stored_results.write_part(directory / "runs", part)
    whole = cwndlab.open(stored_results.results(tmp_path / "whole"))
    results = cwndlab.open(directory)
    assert results.summary["status"].to_list() == ["complete", "missing", "complete", "missing"]
    assert results.summary["goodput_mbps"].to_list() == [8.0, None, 8.2, None]
    done = [0, 2]
    assert results.summary[done].equals(whole.summary[done])
    assert [record.run_id for record in results.records()] == done
    assert results.series(2).equals(whole.series(2))
    results.verify()


def damage_catalogue(directory):
    (directory / "catalogue.parquet").write_bytes(b"PAR1 nothing PAR1")


def cut_catalogue(directory):
    file = directory / "catalogue.parquet"
    file.write_bytes(file.read_bytes()[:-10])


def remove_catalogue(directory):
    (directory / "catalogue.parquet").unlink()


def remove_part(directory):
    shutil.rmtree(directory / "runs/0-3")


def cut_records(directory):
    file = directory / "runs/0-3/runs.jsonl"
    file.write_text(file.read_text()[:-200])


def lose_a_record(directory):
    file = directory / "runs/0-3/runs.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    stored_results.seal(directory)


def no_text(directory):
    (directory / "runs/0-3/runs.jsonl").write_bytes(b"\xff\xfe\n")
    stored_results.seal(directory)


def remove_sums(directory):
    (directory / "SHA256SUMS").unlink()


def sums_of_nothing(directory):
    (directory / "SHA256SUMS").write_bytes(b"")


def other_digest(directory):
    file = directory / "SHA256SUMS"
    file.write_text(file.read_text().translate(str.maketrans("01", "10")))


def no_digest(directory):
    file = directory / "SHA256SUMS"
    file.write_text("".join(line + "\n" for line in file.read_text().splitlines() if "catalogue" not in line))


def altered(directory, name, values):
    _, table = catalogue.read(directory)
    place = table.schema.get_field_index(name)
    stored_results.exchange(directory, table.set_column(place, name, [values]))


def rows_without_end(directory):
    _, table = catalogue.read(directory)
    alike = pa.table(
        {name: pa.nulls(20_000_000, pa.utf8()) for name in table.schema.names[:2]},
    ).replace_schema_metadata(table.schema.metadata)
    stored_results.exchange(directory, alike)


def a_row_group_without_end(directory):
    """Rows that are all alike, which take no room: a megabyte of them could fill the memory."""
    file = directory / "runs/0-3/tcp.parquet"
    count = 4 * tables.ROWS_PER_GROUP
    row = pq.read_table(file).slice(0, 1)
    alike = row.take(pa.array([0] * count)).unify_dictionaries()
    pq.write_table(alike, file, row_group_size=count)
    stored_results.seal(directory)


def no_names(directory):
    altered(directory, "run_id", ["x"] * 4)


def no_utf8(directory):
    altered(directory, "flow", pa.array([b"\xff"] * 4).view(pa.utf8()))


def versions_of_nothing(directory):
    _, table = catalogue.read(directory)
    header = json.loads(table.schema.metadata[b"cwndlab"]) | {"versions": 3}
    stored_results.exchange(directory, table.replace_schema_metadata({"cwndlab": json.dumps(header)}))


def no_records(directory):
    (directory / "runs/0-3/runs.jsonl").write_bytes(b"")
    stored_results.seal(directory)


def bad_time(directory):
    file = directory / "runs/0-3/runs.jsonl"
    file.write_text(file.read_text().replace("2026-01-01T00:00:00+00:00", "now"))
    stored_results.seal(directory)


def endless(directory):
    file = directory / "runs/0-3/runs.jsonl"
    file.unlink()
    file.symlink_to("/dev/zero")


def other_format(directory):
    _, table = catalogue.read(directory)
    header = {
        "format": 99,
        "versions": {"cwndlab": "9.9\x1b[2J"},
        "keys": None,
        "fields": "of another format",
    }
    stored_results.exchange(directory, table.replace_schema_metadata({"cwndlab": json.dumps(header)}))


def lose_a_column(directory):
    _, table = catalogue.read(directory)
    stored_results.exchange(directory, table.drop_columns(["status"]))


def later_version(directory):
    _, table = catalogue.read(directory)
    stored_results.exchange(directory, table.append_column("happiness", [[1.0] * 4]))


def outside(directory):
    altered(directory, "part", ["../../elsewhere"] * 4)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_catalogue, "catalogue.parquet: "),
        (cut_catalogue, "catalogue.parquet: "),
        (remove_catalogue, "not a directory of results (catalogue.parquet is not there)"),
        (remove_part, "runs/0-3: is not there; the results are damaged"),
        (remove_sums, "r: SHA256SUMS is not there; results of format 2 and before have none: read them with"),
        (sums_of_nothing, "SHA256SUMS: was cut; the results are damaged"),
        (
            other_digest,
            "catalogue.parquet: is not as it was written (see SHA256SUMS); the results are damaged",
        ),
        (no_digest, "catalogue.parquet: SHA256SUMS does not list it; the results are damaged"),
        (
            rows_without_end,
            "catalogue.parquet: has 20000000 rows; 10000000 are allowed; the results are damaged",
        ),
        (
            a_row_group_without_end,
            "tcp.parquet: has a row group of more than 1048576 rows; the results are damaged",
        ),
        (no_names, "catalogue.parquet: a run_id is not the run's number and hash; the results are damaged"),
        (no_utf8, "catalogue.parquet: is no whole table of runs; the results are damaged"),
        (
            versions_of_nothing,
            "catalogue.parquet: in its header 'versions' is of another kind than it should be; the results",
        ),
        (no_records, "runs.jsonl: holds no run; the results are damaged"),
        (
            bad_time,
            "runs.jsonl: not the record of a run ('started': 'now' is no time)",
        ),
        (endless, "runs.jsonl: is no file; the results are damaged"),
        (cut_records, "the results are damaged"),
        (lose_a_record, "lacks run 0-"),
        (no_text, "the results are damaged"),
        (
            other_format,
            "was written by cwndlab 9.9\\x1b[2J in format 99, and this version reads format 3; read it with",
        ),
        (lose_a_column, "lacks columns that every catalogue has; the results are damaged"),
        (later_version, "with columns that this version does not know, such as 'happiness'; read it with"),
        (outside, "'../../elsewhere' is no name of a part"),
    ],
)
def test_a_damaged_directory_is_refused_in_one_line(tmp_path, damage, message):
    directory = stored_results.results(tmp_path / "r")
    damage(directory)
    with pytest.raises(InputError) as refused:
        cwndlab.open(directory).series(0)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_metrics_that_an_earlier_version_did_not_know_are_missing(tmp_path):
    directory = stored_results.results(tmp_path / "r")
    columns = cwndlab.open(directory).summary.columns
    later = ["load_scenario", "upload_kib_s", "download_kib_s", "responsiveness_hz", "smoothness_hz", "rpm"]
    _, table = catalogue.read(directory)
    stored_results.exchange(directory, table.drop_columns([*later, "sender_mbps"]))

    results = cwndlab.open(directory)
    results.verify()
    assert results.summary.columns == columns
    assert results.summary["goodput_mbps"].to_list() == [8.0, 8.1, 8.2, 8.3]
    assert results.summary.select(later).null_count().row(0) == (4,) * len(later)
    assert display.table(results) == display.table(cwndlab.open(stored_results.results(tmp_path / "whole")))
    with pytest.raises(InputError) as refused:
        resumption.prepare(
            directory,
            stored_results.header(),
            store.cut(stored_results.plan()),
            stored_results.EXPERIMENT,
            resume=True,
        )
    assert str(refused.value) == (
        f"{directory}: was begun by an earlier version, which did not know sender_mbps and 6 more metrics; "
        "it cannot be resumed, run it again"
    )


def test_altered_rows_are_found(tmp_path):
    directory = stored_results.results(tmp_path / "r")
    file = directory / "runs/0-3/runs.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[1]["tables"]["tcp"]["row_groups"] = [2]  # rows of another run
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    stored_results.seal(directory)
    with pytest.raises(InputError, match="the rows of run 1 were altered"):
        cwndlab.open(directory).verify()


def test_a_list_of_digests_that_was_cut_is_found(tmp_path):
    directory = stored_results.results(tmp_path / "r")
    file = directory / "SHA256SUMS"
    file.write_text("".join(line + "\n" for line in file.read_text().splitlines()[:1]))
    cwndlab.open(directory).series(0)
    with pytest.raises(InputError, match=r"experiment\.yaml: SHA256SUMS does not list it"):
        cwndlab.open(directory).verify()


def test_the_table_fits_and_averages_repeats(tmp_path):
    results = cwndlab.open(stored_results.results(tmp_path / "r"))
    assert display.table(results).splitlines() == [
        "stack freebsd-9.2",
        "cc       n  goodput  util  retrans  limited by  RTT p50  RTT p95  cwnd  recov",
        "             Mbit/s     %        %                   ms       ms    kB",
        "newreno  2    8.050    90        1  path             61       80    80      3",
        "cubic    2    8.250    90        1  path             61       80    80      3",
    ]


def test_columns_and_json_give_single_runs(tmp_path):
    results = cwndlab.open(stored_results.results(tmp_path / "r"))
    table = display.table(results, columns=["run_id", "repeat", "goodput_mbps"])
    assert len(table.splitlines()) == 2 + 4
    rows = [json.loads(line) for line in display.json_lines(results).splitlines()]
    assert [row["goodput_mbps"] for row in rows] == [8.0, 8.1, 8.2, 8.3]
    assert rows[0]["jain"] is None
    (first, *_) = display.json_lines(results, ["goodput_mbps", "flow"]).splitlines()
    assert json.loads(first) == {
        "run_id": results.runs["run_id"][0],
        "repeat": 0,
        "flow": "f1",
        "hosts.a.cc": "newreno",
        "goodput_mbps": 8.0,
    }
    with pytest.raises(InputError, match="column: 'goodput' does not exist"):
        display.table(results, columns=["goodput"])


def test_a_long_table_is_cut_and_says_so(tmp_path):
    runs = stored_results.plan(ccs=tuple(f"cc{number}" for number in range(50)), repeats=1)
    results = cwndlab.open(stored_results.results(tmp_path / "r", runs))
    lines = display.table(results).splitlines()
    assert len(lines) == 1 + 2 + 40 + 3 + 1
    assert [line.split()[0] for line in lines[-4:-1]] == ["min", "median", "max"]
    assert lines[-4].split()[1:2] == ["8.00"]
    assert lines[-1] == f"and 10 more rows: --all shows them, and {tmp_path / 'r' / 'summary.csv'} holds them"
    assert max(map(len, lines[:-1])) <= 80
    assert len(display.table(results, every=True).splitlines()) == 1 + 2 + 50


TWO_FLOWS = {
    "flows": [stored_results.flow_counters("f1"), stored_results.flow_counters("f2", goodput_bytes=4000)]
}


def of_two_applications(count):
    """Runs of a transfer and a ping each, in so many cells."""
    flows = [
        {"name": name, "from": "a", "to": "b", "cc": "cubic", "app": {"kind": kind}}
        for name, kind in (("f1", "bulk"), ("f2", "ping"))
    ]
    scenarios = [stored_results.scenario(flows=flows, seed=index) for index in range(count)]
    return [
        PlannedRun(index, 0, {"hosts.a.cc": f"cc{index}"}, resolved, scenario_hash(resolved))
        for index, resolved in enumerate(scenarios)
    ]


def test_a_long_table_closes_with_the_metrics_of_each_application(tmp_path):
    results = cwndlab.open(stored_results.results(tmp_path / "r", of_two_applications(30), summary=TWO_FLOWS))
    ends = [line.split() for line in display.table(results).splitlines()[-7:-1]]
    assert [[words[0], *(word for word in words if word in ("bulk", "ping"))] for words in ends] == [
        [what, app] for app in ("bulk", "ping") for what in ("min", "median", "max")
    ]
    assert ["8.000" in words for words in ends] == [True] * 3 + [False] * 3
    named = display.table(results, columns=["run_id", "goodput_mbps"]).splitlines()[-7:-1]
    assert [("bulk" in line, "ping" in line) for line in named] == [(True, False)] * 3 + [(False, True)] * 3


@pytest.mark.slow
def test_a_mean_over_flows_of_different_applications_is_not_compared(tmp_path):
    results = cwndlab.open(stored_results.results(tmp_path / "r", of_two_applications(4), summary=TWO_FLOWS))
    assert results.compare(by="hosts.a.cc").each[0].metric == "goodput_mbps"  # the run's sum
    assert results.compare(by="hosts.a.cc", metric=["retransmit_rate"]).each  # only one of them has it
    with pytest.raises(
        InputError, match=r"different applications \(bulk, ping\); choose with --where app=bulk"
    ):
        results.compare(by="hosts.a.cc", metric=["rtt_p50_ms"])
    assert results.compare(by="hosts.a.cc", metric=["rtt_p50_ms"], where={"app": ["ping"]}).each


def test_long_values_go_on_in_new_lines_and_lose_nothing():
    texts = ["pfifo, limit 1000p", "freebsd-15-current/rack", "x" * 60 + "a" + "x" * 60]
    for width, most in ((30, 30), (12, 12), (8, 8), (3, 8)):
        lines = texttable.lines([texttable.Column([text]) for text in texts[:1]], width)
        assert max(map(len, lines)) <= most and " ".join(lines) == texts[0]
        (column,) = texttable.fitted([texttable.Column(texts)], width)
        assert column.width <= most
        assert [cell.replace("\n", "").replace(" ", "") for cell in column.cells] == [
            text.replace(" ", "") for text in texts
        ]
    beside = texttable.lines([texttable.Column(texts[:2]), texttable.Column(["1.5", "22.5"], right=True)], 24)
    assert beside == ["pfifo, limit 1000p   1.5", "freebsd-15-         22.5", "current/rack"]


@pytest.mark.slow
def test_compare_by_a_key_or_with_other_results(tmp_path):
    ours = cwndlab.open(stored_results.results(tmp_path / "a", stored_results.plan(repeats=6)))
    found = ours.compare(by="cc", metric=["rtt_mean_ms", "goodput_mbps"], confidence=0.9)
    assert [(each.metric, each.a.label, each.b.label, each.confidence) for each in found.each] == [
        ("rtt_mean_ms", "newreno", "cubic", 0.9),
        ("goodput_mbps", "newreno", "cubic", 0.9),
    ]
    # Run 6 + n of cubic counted 600 kB more than run n of newreno, in 8 s.
    assert found.each[1].difference == pytest.approx(0.6)
    other = cwndlab.open(stored_results.results(tmp_path / "b", stored_results.plan(repeats=6)))
    same = ours.compare(other)
    assert {each.kind for each in same.each} == {"identical"}
    assert not same.notes
    versions = {"cwndlab": "0.2.0 code aa", "engine": "0.2.0 sources bb"}
    _, table = catalogue.read(other.path)
    header = asdict(other.header) | {"versions": versions}
    stored_results.exchange(other.path, table.replace_schema_metadata({"cwndlab": json.dumps(header)}))
    assert list(ours.compare(cwndlab.open(other.path)).notes) == [
        "a was made by cwndlab none, engine none",
        "b was made by cwndlab 0.2.0 code aa, engine 0.2.0 sources bb",
    ]
    with pytest.raises(InputError, match="either other results or a key"):
        ours.compare()
