"""Logs of other tools, and what is read of them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import fuzz
import logs
import numpy as np
import pytest

import cwndlab
from cwndlab.errors import InputError
from cwndlab.formats import base, compression, external_sort, importers, loadlatency
from cwndlab.formats import flent as flent_format
from cwndlab.formats.base import Recording
from cwndlab.formats.capture import Options
from cwndlab.report import plots
from cwndlab.report.plots import KINDS
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds.logs import connections

LOGS: dict[str, tuple[Callable[[], str | bytes], str]] = {
    "siftr9": (logs.siftr9, "SIFTR"),
    "siftr-ertt": (logs.siftr_ertt, "SIFTR"),
    "siftr13": (logs.siftr13, "SIFTR"),
    "siftr-manual": (logs.siftr_manual, "SIFTR"),
    "siftr15": (logs.siftr15, "SIFTR"),
    "siftr2": (logs.siftr2_text, "siftr2"),
    "siftr25-text": (logs.siftr25_text, "siftr2"),
    "siftr25-binary": (logs.siftr25_binary, "siftr2"),
    "web10g": (logs.web10g, "Web10G or EStats"),
    "estats": (logs.estats, "Web10G or EStats"),
    "web10g-bare": (logs.web10g_bare, "Web10G or EStats"),
    "ttprobe": (logs.ttprobe_text, "ttprobe"),
    "ttprobe-binary": (logs.ttprobe_binary, "ttprobe"),
    "tcp-probe-old": (logs.tcp_probe_old, "tcp_probe"),
    "tcp-probe-trace": (logs.tcp_probe_trace, "tcp_probe"),
    "ss": (logs.ss, "ss -tin"),
}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(tmp_path: Path, name: str) -> Recording:
    (recording,) = base.read(write(tmp_path / name, LOGS[name][0]()))
    return recording


def column(recording: Recording, name: str) -> np.ndarray:
    return recording.tables["tcp"].read()[name].to_numpy()


def contents(recording: Recording) -> dict[str, list[dict[str, object]]]:
    return {name: table.read().to_pylist() for name, table in recording.tables.items()}


@pytest.mark.parametrize("name", LOGS)
def test_windows_times_and_flows(tmp_path: Path, name: str) -> None:
    recording = read(tmp_path, name)
    assert recording.format == LOGS[name][1] and recording.flows == (logs.FLOW,)
    assert column(recording, "cwnd_bytes").tolist() == [logs.cwnd(n) for n in range(logs.ROWS)]
    assert column(recording, "t_ns").tolist() == [n * 10**8 for n in range(logs.ROWS)]
    assert set(column(recording, "srtt_ns")) == {40_000_000}
    if not name.startswith("tcp-probe"):
        assert recording.started is not None and recording.started.timestamp() == logs.START
    metrics = recording.metrics[logs.FLOW]
    assert metrics["cwnd_max_bytes"] == logs.cwnd(logs.ROWS - 1)
    # Each window but the last held for 0.1 s.
    assert metrics["cwnd_mean_bytes"] == pytest.approx(np.mean([logs.cwnd(n) for n in range(logs.ROWS - 1)]))
    flight = [n * logs.MSS for n in range(logs.ROWS)]
    assert column(recording, "inflight_bytes").tolist() == flight


@pytest.mark.parametrize("name", [name for name in LOGS if not name.startswith(("ttprobe", "web10g-bare"))])
def test_infinite_thresholds_are_null_and_states_follow(tmp_path: Path, name: str) -> None:
    recording = read(tmp_path, name)
    threshold = recording.tables["tcp"].read()["ssthresh_bytes"].to_pylist()
    assert threshold == [None] * 10 + [15 * logs.MSS] * 10
    states = recording.tables["tcp"].read()["state"].to_pylist()
    assert states[:10] == ["slow-start"] * 10
    if "siftr" in name:
        assert [n for n, state in enumerate(states) if state == "recovery"] == [10, 11, 15]
        assert recording.metrics[logs.FLOW]["fast_recoveries"] == 2
        assert recording.metrics[logs.FLOW]["cycle_s"] == pytest.approx(0.5)
    else:
        assert states[10:] == ["avoidance"] * 10


@pytest.mark.parametrize(
    "name", ["web10g", "estats", "ttprobe", "ttprobe-binary", "tcp-probe-old", "tcp-probe-trace", "ss"]
)
def test_what_was_delivered_counts_across_the_wrap(tmp_path: Path, name: str) -> None:
    recording = read(tmp_path, name)
    assert column(recording, "delivered_bytes").tolist() == [10 * n * logs.MSS for n in range(logs.ROWS)]
    assert recording.metrics[logs.FLOW]["goodput_mbps"] == pytest.approx(10 * logs.MSS * 8e-6 / 0.1)


@pytest.mark.parametrize("name", ["siftr9", "siftr15", "siftr25-text"])
def test_what_a_log_does_not_say_is_absent(tmp_path: Path, name: str) -> None:
    recording = read(tmp_path, name)
    assert recording.tables["tcp"].read()["delivered_bytes"].null_count == logs.ROWS
    assert not {"goodput_mbps", "retransmit_rate", "rtos"} & set(recording.metrics[logs.FLOW])


def test_layouts_of_siftr(tmp_path: Path) -> None:
    assert read(tmp_path, "siftr9").tables["tcp"].read()["rtt_ns"].null_count == logs.ROWS
    assert set(column(read(tmp_path, "siftr-ertt"), "rtt_ns")) == {42_000_000}
    assert read(tmp_path, "siftr15").facts == {"siftrver": "1.3.0", "sysname": "FreeBSD", "sysver": "1500029"}
    # The units are those of the header, whatever its clock.
    (slow,) = base.read(write(tmp_path / "slow", logs.siftr9(hz=250)))
    assert set(column(slow, "srtt_ns")) == {40_000_000}


def test_siftr2_counts_data_across_the_wrap(tmp_path: Path) -> None:
    recording = read(tmp_path, "siftr2")
    assert column(recording, "delivered_bytes").tolist() == [
        max(n - 1, 0) // 2 * logs.MSS for n in range(logs.ROWS)
    ]
    assert column(recording, "retransmits").tolist() == [0] * 16 + [1] * 4
    twice = read(tmp_path, "siftr25-binary")
    assert twice.facts["cc"] == "cubic" and twice.warnings == ("siftr2 dropped 3 records",)
    assert twice.tables["tcp"].read() == read(tmp_path, "siftr25-text").tables["tcp"].read()
    cut = logs.siftr25_text().split("disable")[0]
    (recording,) = base.read(write(tmp_path / "cut", cut))
    assert recording.flows == ("flow-0a1b2c3d",) and "no footer" in recording.warnings[0]


def test_metrics_that_a_log_gives(tmp_path: Path) -> None:
    metrics = read(tmp_path, "web10g").metrics[logs.FLOW]
    assert (metrics["limited_rwnd_pct"], metrics["limited_cwnd_pct"]) == (10, 30)
    assert (metrics["rtos"], metrics["fast_recoveries"]) == (1, 2)
    assert metrics["retransmit_rate"] == pytest.approx(1 / 19) and metrics["rtt_p50_ms"] == 42
    metrics = read(tmp_path, "ss").metrics[logs.FLOW]
    assert metrics["retransmit_rate"] == pytest.approx(1 / (12 * 19)) and metrics["limited_rwnd_pct"] == 20
    recording = read(tmp_path, "ss")
    assert recording.facts == {"cc": "cubic"} and set(column(recording, "pacing_bps")) == {4_200_000}


def test_transcripts_without_times_say_so(tmp_path: Path) -> None:
    (recording,) = base.read(write(tmp_path / "ss.txt", logs.ss(stamps=False)))
    assert column(recording, "t_ns").tolist() == [n * 10**9 for n in range(logs.ROWS)]
    assert "one second apart" in recording.warnings[0] and recording.started is None
    iso = logs.ss().replace("1400000000.000000000", "2014-05-13T16:53:20,000000000+00:00")
    (dated,) = base.read(write(tmp_path / "iso.txt", iso))
    assert dated.started is not None and dated.started.timestamp() == logs.START


def test_assumptions_of_tcp_probe_are_said(tmp_path: Path) -> None:
    assert "1448 bytes, which is assumed" in read(tmp_path, "tcp-probe-old").warnings[0]
    ticks = logs.tcp_probe_old().replace(" 40000 ", " 40 ").replace(":40 ", ":40000 ")
    (recording,) = base.read(write(tmp_path / "ticks", ticks))
    assert recording.tables["tcp"].read()["srtt_ns"].null_count == logs.ROWS
    assert "clock ticks" in recording.warnings[-1]


@pytest.mark.parametrize("name", LOGS)
def test_every_log_becomes_results(tmp_path: Path, name: str) -> None:
    content = LOGS[name][0]()
    file = tmp_path / f"{name}.log.gz"
    file.write_bytes(gzip.compress(content.encode() if isinstance(content, str) else content))
    results = importers.results([file], Options(), tmp_path / "results")
    again = cwndlab.open(tmp_path / "results")
    again.verify()
    assert again.complete and again.summary.height == 1
    assert again.series(0, flow=logs.FLOW)["cwnd_bytes"].to_list() == [logs.cwnd(n) for n in range(logs.ROWS)]
    row = again.summary.row(0, named=True)
    assert row["status"] == "complete" and row["queue_delay_p95_ms"] is None and row["utilisation"] is None
    assert results.record(0).facts["format"] == LOGS[name][1]


def two_runs(tmp_path: Path) -> ResultSet:
    files = [write(tmp_path / f"{name}.log", LOGS[name][0]()) for name in ("ss", "web10g")]
    return importers.results(files, Options(), tmp_path / "two")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("name", ["ss", "siftr9", "tcp-probe-old"])
def test_logs_that_windows_has_written_are_read(tmp_path: Path, name: str, encoding: str) -> None:
    """Logs that PowerShell wrote, with the ends of lines of Windows too."""
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    text = LOGS[name][0]()
    assert isinstance(text, str)
    (plain,) = base.read(write(tmp_path / "plain.log", text))
    (recording,) = base.read(write(tmp_path / "log", (mark + text.replace("\n", "\r\n")).encode(encoding)))
    assert recording.flows == plain.flows
    assert recording.tables["tcp"].read() == plain.tables["tcp"].read()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_metric_is_drawn_or_says_what_is_missing(tmp_path: Path, kind: str) -> None:
    options = {"phase": {"runs": ["0"]}, "sequence": {"runs": ["1"]}, "bursts": {"runs": ["0"]}}
    try:
        plots.plot(two_runs(tmp_path), kind, tmp_path / "figure.png", **options.get(kind, {}))
    except InputError as error:
        assert kind in ("queue", "sojourn", "heat", "throughput", "bursts", "slowdown", "steady"), error
        assert "\n" not in str(error)
    else:
        assert (tmp_path / "figure.png").stat().st_size > 1000


def test_the_report_is_written(tmp_path: Path) -> None:
    from cwndlab.report.html_report import write as write_report

    page = write_report(two_runs(tmp_path), tmp_path / "report.html")
    assert logs.FLOW in Path(page).read_text()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x1f\x8b\x08\x00broken",
        b"hello\n" * 1000,
        bytes(range(256)) * 100,
        logs.siftr9().split("\n")[0].encode(),
        logs.siftr9().replace("hz=1000", "hz=0").encode(),
        logs.siftr9().replace("hz=1000", "hz=99999999999999999999").encode(),
        logs.siftr2_text().replace(str(logs.START), "9" * 30).encode(),
        logs.web10g().split("\n")[0].encode(),
        b"i," * 16 + b"\n",
        b'{"x_values": [1e400], "results": {"TCP upload": [1]}, "raw_values": {}, "metadata": {}}',
        b'{"x_values": ' + b"[" * 100_000,
    ],
)
def test_unreadable_files_are_one_clear_line(tmp_path: Path, content: bytes) -> None:
    file = write(tmp_path / "bad", content)
    with pytest.raises(InputError) as refused:
        base.read(file)
    message = str(refused.value)
    assert message.startswith(str(file)) and "\n" not in message and refused.value.exit_code == 2


def test_the_order_of_formats_does_not_matter(tmp_path: Path) -> None:
    """Each sample is recognised by its own format alone."""
    modules = list(base.modules())
    for make, kind in LOGS.values():
        content = make()
        head = (content.encode() if isinstance(content, str) else content)[: base.HEAD_BYTES]
        assert [module.NAME for module in modules if module.recognises(head)] == [kind]


def test_a_damaged_name_of_a_flow_is_the_same_in_the_table(tmp_path: Path) -> None:
    damaged = logs.ttprobe_text().replace(",5001,", ",5001\0,", 1)
    (recording,) = base.read(write(tmp_path / "damaged.log", damaged))
    named = recording.tables["tcp"].read()["flow"].cast("string").unique().to_pylist()
    assert sorted(named) == sorted(recording.flows)
    assert any(name.endswith(r"\x00") for name in named)


@pytest.mark.parametrize("year", ["9999", "0001"])
def test_a_transcript_of_a_year_that_no_clock_shows_has_no_times(tmp_path: Path, year: str) -> None:
    _, _, connections = logs.ss().partition("ESTAB")
    damaged = f"{year}-01-01T00:00:00+00:00\nESTAB{connections.partition('ESTAB')[0]}"
    (recording,) = base.read(write(tmp_path / "damaged.txt", damaged))
    assert any("no times" in warning for warning in recording.warnings)


def test_siftr_as_its_manual_page_describes_it(tmp_path: Path) -> None:
    (found,) = base.read(write(tmp_path / "log", logs.siftr_manual()))
    (whole,) = base.read(write(tmp_path / "whole", logs.siftr9()))
    assert not found.warnings
    assert found.tables["tcp"].read().equals(whole.tables["tcp"].read())
    kinds = set(found.tables["samples"].read()["kind"].cast("string").to_pylist())
    assert "siftr.rto" in kinds and "siftr.reassembly" not in kinds


@pytest.mark.slow
def test_columns_of_logs_are_kept_and_can_be_plotted(tmp_path: Path) -> None:
    wanted = {
        "siftr13": {"siftr.rto": 230, "siftr.snd_hiwat": 600000, "siftr.flowtype": 0, "siftr.rcv_wnd": 65700},
        "siftr15": {"siftr.rto": 230000, "siftr.flowid": 3735928559, "siftr.flowtype": 63},
        "ttprobe": {"ttprobe.mss": logs.MSS},
        "ttprobe-binary": {"ttprobe.mss": logs.MSS},
    }
    for name, columns in wanted.items():
        results = importers.results(
            [write(tmp_path / name, LOGS[name][0]())], Options(), tmp_path / f"r-{name}"
        )
        samples = results.series(0, table="samples")
        for kind, value in columns.items():
            mine = samples.filter(samples["kind"].cast(str) == kind)
            # It stays the same: the first and the last row.
            assert mine["value"].to_list() == [value, value] and mine["t_s"].to_list() == [0.0, 1.9], kind
            metric = plots.plot(results, "series", value=kind)
            (line,) = [line for line in metric.axes[0].lines if len(line.get_xdata())]
            assert line.get_ydata()[0] == value
    with pytest.raises(InputError, match=r"siftr.rta.*siftr.rto"):
        cwndlab.open(tmp_path / "r-siftr13").plot("series", value="siftr.rta")


def test_unknown_fields_and_columns_have_names(tmp_path: Path) -> None:
    (found,) = base.read(write(tmp_path / "log", logs.siftr9(",7,8,9")))
    kinds = set(found.tables["samples"].read()["kind"].cast("string").to_pylist())
    assert {"siftr.flowid", "siftr.flowtype", "siftr.field29"} <= kinds
    recording = read(tmp_path, "web10g")
    kinds = set(recording.tables["samples"].read()["kind"].cast("string").to_pylist())
    assert kinds and all(kind.startswith("web10g.") for kind in kinds)
    assert "web10g.curcwnd" not in kinds
    bare = read(tmp_path, "web10g-bare").tables["samples"].read()["kind"].cast("string").to_pylist()
    assert "web10g.column11" not in bare and "web10g.column12" in bare


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"enable_time_secs=1\tx\n",
            "SIFTR: it has a header with enable_time_secs=, but not siftrver=",
        ),
        (b"10.0 ESTAB cwnd:10 rtt:5\n", "nearest is ss -tin: it has cwnd:N, rtt:N, but not mss:N;"),
        (
            b"x 1.0: tcp_probe: a=1\n",
            "tcp_probe: it has tcp_probe:, but not ADDRESS:PORT of both ends",
        ),
        (
            b"Timestamp CurCwnd\n",
            "nearest is Web10G or EStats: it has other names of RFC 4898, but not CurCwnd",
        ),
        (b'{"results": {}, "metadata": {}}', 'Flent: it has "metadata", "results", but not "x_values", nor'),
        (b"i,1,2\n", "nearest is ttprobe: it has records that begin with i or o, but not 1"),
    ],
)
def test_a_file_that_is_nearly_of_a_format_is_told_why_not(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(InputError) as refused:
        base.read(write(tmp_path / "nearly", content))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "siftr15",
        "siftr2",
        "siftr25-text",
        "ttprobe",
        "tcp-probe-old",
        "tcp-probe-trace",
        "ss",
        "web10g",
        "estats",
        "web10g-bare",
    ],
)
def test_a_first_line_that_is_cut_off_or_foreign_hides_no_log(tmp_path: Path, name: str) -> None:
    content = str(LOGS[name][0]())
    for first in ("0.1:40000 10.0.1.1:5001 32 0x1 garbage\n", "$ cat log\n"):
        (recording,) = base.read(write(tmp_path / "log", first + content))
        assert recording.format == LOGS[name][1] and recording.flows == (logs.FLOW,)
        assert recording.tables["tcp"].num_rows == logs.ROWS


@pytest.mark.parametrize("name", ["siftr13", "siftr15", "siftr2", "siftr25-text", "siftr25-binary"])
def test_each_header_begins_a_session_of_its_own(tmp_path: Path, name: str) -> None:
    content = LOGS[name][0]()
    whole = content.encode() if isinstance(content, str) else content
    # The second time other addresses have the same flow ID, and the clock another rate.
    second = whole.replace(b"10.0.1.1", b"10.0.1.2").replace(b"hz=1000", b"hz=500")
    found = base.read(write(tmp_path / "log", whole + second))
    assert [recording.label for recording in found] == ["log #1", "log #2"]
    assert [recording.flows for recording in found] == [(logs.FLOW,), (logs.FLOW.replace("1.1:", "1.2:"),)]
    assert [recording.tables["tcp"].num_rows for recording in found] == [logs.ROWS, logs.ROWS]
    units = [set(column(recording, "srtt_ns")) for recording in found]
    assert units == [{40_000_000}, {80_000_000} if name == "siftr13" else {40_000_000}]


@pytest.mark.parametrize("name", ["siftr13", "siftr15", "siftr2", "siftr25-text"])
def test_logs_without_a_header_are_told_by_their_columns(tmp_path: Path, name: str) -> None:
    content = str(LOGS[name][0]()).partition("\n")[2]
    (recording,) = base.read(write(tmp_path / "log", content))
    (whole,) = base.read(write(tmp_path / "whole", LOGS[name][0]()))
    assert recording.format == whole.format and recording.flows == whole.flows
    for wanted in ("cwnd_bytes", "inflight_bytes", "t_ns"):
        assert column(recording, wanted).tolist() == column(whole, wanted).tolist()
    if name == "siftr13":
        assert recording.tables["tcp"].read()["srtt_ns"].null_count == logs.ROWS
        assert "srtt is left out" in recording.warnings[0]
    else:
        assert set(column(recording, "srtt_ns")) == {40_000_000}
    assert (recording.started is None) == (name == "siftr25-text")


@pytest.mark.parametrize("kind", ["epoch", "iso", "date", "one line", "no ends", "no ends nor times"])
def test_layouts_of_transcripts(tmp_path: Path, kind: str) -> None:
    blocks = []
    for n in range(3):
        moment = {
            "iso": f"2014-05-13T16:53:2{n}+00:00",
            "date": f"Tue May 13 16:53:2{n} UTC 2014",
            "no ends nor times": "",
        }.get(kind, f"{logs.START + n}.000000000")
        ends = "" if "no ends" in kind else "ESTAB 0 869480 10.0.0.1:40000 10.0.1.1:5001"
        details = f"cubic wscale:7,7 rto:244 rtt:40/0.5 mss:{logs.MSS} cwnd:{10 + n} bytes_acked:{n * 1000}"
        between = " " if kind == "one line" or "no ends" in kind else "\n\t "
        blocks.append(f"{moment} {ends}{between}{details}\n")
    (recording,) = base.read(write(tmp_path / "ss.txt", "".join(blocks)))
    assert recording.flows == (("connection-1",) if "no ends" in kind else (logs.FLOW,))
    assert column(recording, "cwnd_bytes").tolist() == [logs.cwnd(n) for n in range(3)]
    assert column(recording, "t_ns").tolist() == [n * 10**9 for n in range(3)]
    assert recording.facts["cc"] == "cubic"
    if kind != "no ends nor times":
        assert recording.started is not None and recording.started.timestamp() == logs.START
    assert ("no addresses" in "".join(recording.warnings)) == ("no ends" in kind)


def test_details_that_lost_their_connection_are_left_out_beside_others(tmp_path: Path) -> None:
    details = logs.ss().split("\n")[3]
    (recording,) = base.read(write(tmp_path / "ss.txt", f"{logs.START}.0\n{details}\n{logs.ss()}"))
    assert recording.flows == (logs.FLOW,) and recording.tables["tcp"].num_rows == logs.ROWS
    assert recording.warnings == ("1 samples without addresses are left out",)


@pytest.mark.parametrize("event", ["tcp_probe:            ", "tcp:tcp_probe:   ", "     tcp:tcp_probe: "])
def test_records_of_trace_cmd_and_perf(tmp_path: Path, event: str) -> None:
    padded = logs.tcp_probe_trace().replace(" tcp_probe: ", f" {event}").replace(" ..s1.", "")
    (recording,) = base.read(write(tmp_path / "trace", "cpus=4\n" + padded))
    assert recording.tables["tcp"].read() == read(tmp_path, "tcp-probe-trace").tables["tcp"].read()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["siftr13", "siftr15", "siftr25-text", "ttprobe", "web10g"])
def test_pieces_and_flows_of_a_log_do_not_change_what_it_says(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(tmp_path, name)
    monkeypatch.setattr(compression, "PIECE", 500)
    # So little that everything goes to the disk, and is merged there.
    for limit, value in (("KEPT_BYTES", 100), ("HELD_BYTES", 100), ("BLOCK_BYTES", 100), ("MOST_RUNS", 2)):
        monkeypatch.setattr(external_sort, limit, value)
    assert contents(read(tmp_path, name)) == contents(whole)
    if name == "siftr15":
        lines = str(LOGS[name][0]()).split("\n")
        both = [
            each for line in lines for each in dict.fromkeys((line, line.replace("10.0.1.1", "10.0.1.2")))
        ]
        (recording,) = base.read(write(tmp_path / "both", "\n".join(both)))
        assert recording.flows == (logs.FLOW, logs.FLOW.replace("1.1:", "1.2:"))
        for flow in recording.flows:
            assert recording.metrics[flow] == whole.metrics[logs.FLOW]


def test_a_binary_log_of_siftr2_without_its_header(tmp_path: Path) -> None:
    headless = logs.siftr25_binary().partition(b"\n")[2]
    (found,) = base.read(write(tmp_path / "headless", headless))
    assert found.format == "siftr2" and found.flows == (logs.FLOW,) and connections.NO_START in found.warnings
    assert column(found, "cwnd_bytes").tolist() == [logs.cwnd(n) for n in range(logs.ROWS)]
    with pytest.raises(InputError, match="no known format"):
        base.read(write(tmp_path / "zeros", bytes(7200)))


def test_json_is_told_by_keys_that_stand_anywhere_in_its_head(tmp_path: Path) -> None:
    flent = {"note": "x" * 1000, "results": {"TCP upload": [1.0, 2.0]}, "metadata": {}, "x_values": [0, 1]}
    (found,) = base.read(write(tmp_path / "turned.flent", "\ufeff" + json.dumps(flent)))
    assert (found.format, found.flows) == ("Flent", ("TCP upload",))
    assert loadlatency.recognises(b'{"metrics": [], "kind": "loadlatency", "schema": 1}')
    assert not flent_format.recognises(b'{"metadata": {}, "results": [1]}')


def test_loadlatencys_document_is_read_as_both_schemas_have_it(tmp_path: Path) -> None:
    newest = fuzz.load_document()
    document = json.loads(newest)
    assert document["schema"] == 2 and len(document["metrics"]) == 2
    document |= {"schema": 1, "figures": document.pop("metrics")}
    first, second = (
        base.read(write(tmp_path / name, text))
        for name, text in (("newest.json", newest), ("first.json", json.dumps(document)))
    )
    assert [one.metrics for one in first] == [one.metrics for one in second] and first[0].metrics
    later = json.dumps(document | {"schema": 3})
    with pytest.raises(InputError, match="schema 3 is not known, but 1 and 2 are"):
        base.read(write(tmp_path / "later.json", later))


def test_one_way_changes_of_a_loadlatency_document_say_how_far_they_may_be_off(tmp_path: Path) -> None:
    document = json.loads(fuzz.load_document())
    for started in (document["conditions"]["started_unix_s"], None):
        document["conditions"]["started_unix_s"] = started
        (found, *_) = base.read(write(tmp_path / "load.json", json.dumps(document)))
        off_ms = found.metrics["pinger"].get("one_way_error_ms")
        if started is None:
            assert off_ms is None and not any("may be off" in said for said in found.warnings)
        else:
            assert off_ms == document["metrics"][0]["one_way"]["off_ms"] > 0
            assert f"pinger: one-way changes may be off by {off_ms:.4g} ms: two clocks" in found.warnings


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"version": 4, "metadata": {}, "x_values": ', "Flent (it breaks off in line 1, column 44)"),
        ('{"version": 4, "metadata": {}, "x_values": [0]}', "Flent (no 'results')"),
        (
            '{"results": {"TCP upload": ["x"]}, "metadata": {}, "x_values": [1]}',
            "Flent (a value is of another kind",
        ),
        (
            '{"start": {"test_start": 5}, "intervals": [{"streams": [{"bytes": 1, "end": 1}]}]}',
            "iperf3 (a value is",
        ),
        ('{"kind": "loadlatency", "observed": {}}', "loadlatency (no 'idle_pings' in line 1, column 38)"),
        ('{"kind": "loadlatency", "observed": {"x": 1}}', "('x' stands there and should not, in line 1"),
        ('{"kind": "loadlatency", "observed": {', "loadlatency (it breaks off in line 1, column 37)"),
        ('{"kind": "loadlatency", "observed": {} ,}', "loadlatency (no 'idle_pings'"),
        ('{"schema": "1", "kind": "loadlatency", "observed": {', "than it should be, in line 1, column 14)"),
    ],
)
def test_damaged_json_is_told_in_words(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        base.read(write(tmp_path / "damaged.json", content))
    assert said in str(refused.value)
