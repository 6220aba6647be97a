"""qlog files of several stacks and drafts give the same series; results as qlog keep to the draft."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import qlogs

import cwndlab
import mvfst
from cwndlab.errors import InputError
from cwndlab.formats import base, directory, exporters, qlog
from cwndlab.formats.base import Recording
from experiments import dumbbell


def read(tmp_path: Path, text: str, name: str = "log.qlog") -> Recording:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    assert qlog.recognises(base.head(file))
    [found] = base.read(file)
    return found


def rows(found: Recording, table: str = "tcp") -> list[dict[str, Any]]:
    return pa.Table.from_batches(found.tables[table].batches()).to_pylist()


@pytest.mark.parametrize("stack", qlogs.ALL)
def test_every_stack_gives_the_same_series(tmp_path: Path, stack: str) -> None:
    found = read(tmp_path, qlogs.ALL[stack]())
    assert found.format == "qlog"
    assert found.flows == ("server-c0ffee",)
    assert found.started == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    told = rows(found)
    by_time = {row["t_ns"] // 10**6: row for row in told}
    assert by_time[140]["cwnd_bytes"] == qlogs.cwnd(11)
    assert by_time[140]["delivered_bytes"] == 11 * qlogs.SIZE
    assert by_time[140]["srtt_ns"] == 40_000_000
    assert {row["rtt_ns"] for row in told} == {None, 40_000_000}
    # Four packets are under way: those of the last 40 ms, the one that leaves now included or not.
    assert by_time[140]["inflight_bytes"] in (3 * qlogs.SIZE, 4 * qlogs.SIZE)
    last = told[-1]
    assert last["delivered_bytes"] == (qlogs.PACKETS - 1) * qlogs.SIZE
    assert (last["cwnd_bytes"], last["state"]) == (qlogs.CUT, "avoidance")
    assert by_time[400]["state"] == "recovery"
    events = [(row["kind"], row["t_ns"] // 10**6, row["value"]) for row in rows(found, "events")]
    assert events[:2] == [("loss", 350, qlogs.SIZE), ("recovery-in", 350, qlogs.cwnd(30))]
    assert [kind for kind, *_ in events[2:]] == ["recovery-out"]
    assert found.metrics["server-c0ffee"]["fast_recoveries"] == 1
    assert found.facts[qlog.DATAGRAM] == str(qlogs.SIZE)
    assert not found.warnings


def of_both_ends() -> str:
    """A log with the traces of both ends of one connection."""
    log = json.loads(qlogs.picoquic())
    (server,) = log["traces"]
    client = {**server, "vantage_point": {"type": "client"}, "events": server["events"][:100]}
    return json.dumps({**log, "traces": [server, client]})


def test_both_directions_of_a_connection_do_not_compete(tmp_path: Path) -> None:
    found = read(tmp_path, of_both_ends())
    assert found.flows == ("server-c0ffee", "client-c0ffee")
    assert set(directory._fairness(found).values()) == {None}
    alike = replace(found, ends=dict.fromkeys(found.flows, "server"))
    (index,) = set(directory._fairness(alike).values())
    assert index is not None
    assert 0.5 < index <= 1


def test_a_round_trip_that_is_written_with_each_packet_sent_is_one_sample(tmp_path: Path) -> None:
    head = json.dumps({"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {"vantage_point": {}}})
    flights = [3000, 4000, 5000, 4000, 3000, 4000]
    sent: dict[str, Any] = {"header": {"packet_type": "1RTT", "packet_number": 0}, "raw": {"length": 1000}}
    events: list[dict[str, Any]] = [{"time": 0, "name": "transport:packet_sent", "data": sent}]
    events += [
        {
            "time": time,
            "name": "recovery:metrics_updated",
            "data": {"congestion_window": 9000, "latest_rtt": 40.5, "bytes_in_flight": flight},
        }
        for time, flight in enumerate(flights)
    ]
    found = read(tmp_path, "\n".join([head, *map(json.dumps, events)]) + "\n")
    samples = [row["rtt_ns"] for row in rows(found)]
    assert samples == [40_500_000, None, None, 40_500_000, 40_500_000, None]


def test_a_log_without_states_counts_no_recoveries(tmp_path: Path) -> None:
    text = "\n".join(line for line in qlogs.quiche().split("\n") if "congestion_state" not in line)
    found = read(tmp_path, text)
    assert "fast_recoveries" not in found.metrics["server-c0ffee"]
    assert {row["state"] for row in rows(found)} == {None}


def test_a_file_of_json_that_was_cut_off_counts_so_far(tmp_path: Path) -> None:
    whole = qlogs.picoquic()
    found = read(tmp_path, whole[: len(whole) // 2])
    assert "the file ends before its end: what stands in it counts" in found.warnings
    assert 0 < found.tables["tcp"].num_rows < read(tmp_path, whole).tables["tcp"].num_rows


def test_damaged_records_are_counted_and_passed_over(tmp_path: Path) -> None:
    kept = qlogs.quic_go().split("\n")
    kept[20:20] = ['\x1e{"time": 3, "name": "recovery:metrics_updated", "data": {"congest']
    found = read(tmp_path, "\n".join(kept))
    assert found.warnings == ("1 records are no events",)
    assert rows(found) == rows(read(tmp_path, qlogs.quic_go()))


def test_connections_of_one_file_are_told_apart_by_their_groups(tmp_path: Path) -> None:
    head, *records = qlogs.quiche().rstrip("\n").split("\n")
    events = [json.loads(record[1:]) for record in records]
    both = [f"\x1e{json.dumps(event | {'group_id': group})}" for event in events for group in ("a", "b")]
    found = read(tmp_path, "\n".join([head, *both]) + "\n")
    assert found.flows == ("server-a", "server-b")
    assert found.metrics["server-a"] == found.metrics["server-b"]


def test_paths_of_a_connection_are_flows_with_windows_of_their_own(tmp_path: Path) -> None:
    """Events of picoquic have a column `path_id`; the first path is 0."""
    document = json.loads(qlogs.picoquic())
    (trace,) = document["traces"]
    at, *names = trace["event_fields"]
    trace["event_fields"] = [at, "path_id", *names]
    single = [[time, 0, *others] for time, *others in trace["events"]]
    second = [[0, 1, "recovery", "metrics_updated", {"cwnd": 77_000, "smoothed_rtt": 9000}]]
    trace["events"] = [*second, *single]
    found = read(tmp_path, json.dumps(document))
    assert sorted(found.flows) == ["server-c0ffee", "server-c0ffee-path1"]
    of_flow = {name: [row for row in rows(found) if row["flow"] == name] for name in found.flows}
    assert [row["cwnd_bytes"] for row in of_flow["server-c0ffee-path1"]] == [77_000]
    assert 77_000 not in {row["cwnd_bytes"] for row in of_flow["server-c0ffee"]}


def test_quinn_writes_round_trips_in_seconds_and_changes_the_group_in_the_handshake(tmp_path: Path) -> None:
    """Round trips of quinn-proto 0.11.19 are in seconds; the first, RFC 9002's, was not measured."""
    initial = dict.fromkeys(("min_rtt", "smoothed_rtt", "latest_rtt"), 0.333)
    measured = dict.fromkeys(initial, 0.04048)
    told: list[tuple[float, str, dict[str, object], str]] = [
        (1.0, "transport:packet_sent", {"header": {"packet_type": "initial", "packet_number": 0}}, "aa"),
        (1.0, "recovery:metrics_updated", initial | {"congestion_window": 12_000}, "aa"),
        (41.0, "transport:packet_received", {"header": {"packet_type": "handshake"}}, "bb"),
        (41.0, "recovery:metrics_updated", measured | {"bytes_in_flight": 0}, "bb"),
        (42.0, "recovery:metrics_updated", {"congestion_window": 14_000}, "bb"),
    ]
    head = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {"vantage_point": {"type": "unknown"}}}
    events = [{"time": at, "name": name, "data": data, "group_id": group} for at, name, data, group in told]
    found = read(tmp_path, "".join(f"\x1e{json.dumps(each)}\n" for each in (head, *events)))
    assert found.flows == ("unknown-aa",)
    windows = [(row["cwnd_bytes"], row["srtt_ns"], row["rtt_ns"]) for row in rows(found)]
    assert windows == [(12_000, None, None), (12_000, 40_480_000, 40_480_000), (14_000, 40_480_000, None)]


@pytest.mark.parametrize("newer", [False, True])
def test_what_mvfst_writes_is_read(tmp_path: Path, newer: bool) -> None:
    """draft-00 has lists, times in us as text, and windows and round trips in two events; 0.4 has neither."""
    sender = mvfst.Sender(newer=newer)
    found = read(tmp_path, sender.run())
    assert found.flows == ("server-c0ffee",)
    assert found.started is None
    assert found.warnings == ("the file does not say when it began: times count from its first event",)
    told = rows(found)
    assert (told[0]["t_ns"], told[0]["cwnd_bytes"]) == (0, 10 * mvfst.SIZE)
    first = next(row for row in told if row["delivered_bytes"])
    assert first["delivered_bytes"] == mvfst.SIZE
    assert 50_000_000 <= first["t_ns"] <= 50_020_000
    samples = [row["rtt_ns"] for row in told if row["rtt_ns"] is not None]
    # One sample for an ACK, though the newer logger writes several times what it knows.
    assert sender.acks - 1 <= len(samples) <= sender.acks
    assert min(samples) == mvfst.RTT_US * 1000
    last = told[-1]
    assert last["delivered_bytes"] == (sender.packets - 1) * mvfst.SIZE
    cut = int(0.7 * max(row["cwnd_bytes"] for row in told))
    assert (last["cwnd_bytes"], last["inflight_bytes"], last["state"]) == (cut, 0, "avoidance")
    events = [(row["kind"], row["value"]) for row in rows(found, "events")]
    assert events[0] == ("loss", mvfst.SIZE)
    assert [kind for kind, _ in events] == ["loss", "recovery-in", "recovery-out"]
    assert found.facts[qlog.DATAGRAM] == str(mvfst.SIZE)


@pytest.mark.parametrize("newer", [False, True])
def test_alarms_and_limits_of_mvfst_are_events(tmp_path: Path, newer: bool) -> None:
    sender = mvfst.Sender(newer=newer, packets=20)
    state = "quic:congestion_state_updated"
    alarm = {"largest_sent": 19, "alarm_count": 1, "outstanding_packets": 2, "type": "pto alarm"}
    sender.log("quic:loss_timer_updated" if newer else "loss_alarm", "loss", alarm)
    for limited in ("app limited", "app unlimited"):
        sender.log(state if newer else "app_limited_update", "app_limited_update", {"app_limited": limited})
    for idle in (True, False):
        data = {"idle_event": "app idle", "idle": idle}
        sender.log(state if newer else "app_idle_update", "idle_update", data)
    if newer:
        metrics = {"congestion_window": 12_520, "pto_count": 1}
        sender.log("quic:recovery_metrics_updated", "", metrics)
        sender.log(state, "", {"new": "Hystart", "trigger": "persistent congestion"})
    else:
        data = {"current_cwnd": 2504, "congestion_event": "persistent congestion", "state": "Hystart"}
        sender.log("congestion_metric_update", "metric_update", data)
    told = [row["kind"] for row in rows(read(tmp_path, sender.run()), "events")]
    assert told == ["probe-timeout", "app-limited", "app-limited", "persistent-congestion"]


@pytest.mark.parametrize("kind", ["ack_ecn", "ack_extended", "ack_receive_timestamps"])
def test_every_kind_of_ack_frame_acknowledges(tmp_path: Path, kind: str) -> None:
    text = mvfst.Sender(newer=True, packets=40).run()
    plain, other = read(tmp_path, text), read(tmp_path, text.replace('"ack"', f'"{kind}"'))
    assert rows(other) == rows(plain)
    assert rows(other)[-1]["delivered_bytes"] == 40 * mvfst.SIZE


def test_both_ends_in_one_file_are_two_flows_by_one_clock(tmp_path: Path) -> None:
    document = json.loads(qlogs.picoquic())
    client = json.loads(json.dumps(document["traces"][0]))
    client["vantage_point"]["type"] = "client"
    client["common_fields"]["reference_time"] = str((qlogs.REFERENCE_MS + 100) * 1000)
    document["traces"].append(client)
    found = read(tmp_path, json.dumps(document))
    assert found.flows == ("server-c0ffee", "client-c0ffee")
    first = {flow: min(row["t_ns"] for row in rows(found) if row["flow"] == flow) for flow in found.flows}
    assert first["client-c0ffee"] - first["server-c0ffee"] == 100_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"qlog_version": "0.3", "traces": [{"events": []}]}', "without a window"),
        ('{"qlog_version": "0.3", "traces": [{"events": [' + "[" * 100_000, "nested too deeply"),
        ('{"qlog_version": "0.3", "traces": [{"events": [{"a": "' + "x" * (2 << 20), "longer than 1 MiB"),
        ('{"qlog_version": "0.3", "traces": ' + " " * (5 << 20), "beside its events"),
        ('{"qlog_version": "0.3", "traces": {"title": "a"', "not whole JSON"),
    ],
)
def test_what_is_no_qlog_is_refused_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "log.qlog"
    file.write_text(text)
    with pytest.raises(InputError, match=said) as refused:
        base.read(file)
    assert "\n" not in str(refused.value)


EXPERIMENT = dumbbell(
    "export",
    duration="4s",
    a="stack: linux-6.18, cc: cubic",
    bottleneck="rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 30p}",
    more="record: {tcp: per-ack}\n",
)

FIELDS = {
    "recovery_metrics_updated": {
        "congestion_window": int, "ssthresh": int, "bytes_in_flight": int, "pacing_rate": int,
        "smoothed_rtt": float, "latest_rtt": float,
    },
    "congestion_state_updated": {"old": str, "new": str},
    "packet_lost": {"header": dict},
    "timer_updated": {"timer_type": str, "event_type": str},
}  # fmt: skip
"""Fields of the events, and their types, as the draft defines them."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> cwndlab.ResultSet:
    return cwndlab.load(EXPERIMENT).run(out=tmp_path_factory.mktemp("qlog") / "results")


def test_results_keep_to_the_draft(results: cwndlab.ResultSet, tmp_path: Path) -> None:
    [file] = exporters.export(results, "qlog", tmp_path / "out")
    written = file.read_text()
    document = json.loads(written)
    assert document["file_schema"] == "urn:ietf:params:qlog:file:contained"
    assert document["serialization_format"] == "application/qlog+json"
    assert written.index("serialization_format") < 256
    for trace in document["traces"]:
        assert trace["vantage_point"]["type"] == "client"
        [schema] = trace["event_schemas"]
        assert schema.startswith("urn:ietf:params:qlog:events:quic-")
        times = [event["time"] for event in trace["events"]]
        assert times == sorted(times)
        for event in trace["events"]:
            space, name = event["name"].split(":")
            assert space == "quic"
            types = FIELDS[name]
            assert all(isinstance(value, types[key]) for key, value in event["data"].items()), event
            assert name != "congestion_state_updated" or "new" in event["data"]


@pytest.mark.parametrize("form", ["qlog", "qlog-0.3"])
def test_what_is_exported_comes_back(results: cwndlab.ResultSet, tmp_path: Path, form: str) -> None:
    [file] = exporters.export(results, form, tmp_path / "out")
    [back] = base.read(file)
    run = str(results.runs["run_id"][0])
    ours = results.rows(run, "tcp").to_pylist()
    theirs = rows(back)
    zero = ours[0]["t_ns"]
    for column in ("cwnd_bytes", "ssthresh_bytes", "srtt_ns", "rtt_ns", "inflight_bytes"):
        assert [row[column] for row in theirs] == [row[column] for row in ours], column
    assert [row["t_ns"] + zero for row in theirs] == [row["t_ns"] for row in ours]
    drops = [row["t_ns"] for row in results.rows(run, "events").to_pylist() if row["kind"] == "drop"]
    lost = [row["t_ns"] + zero for row in rows(back, "events") if row["kind"] == "loss"]
    assert drops
    assert lost == drops
