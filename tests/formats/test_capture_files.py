"""Captures of simulated runs: what is read of them is what the simulator says happened."""

import gzip
import struct
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import LineCollection
from matplotlib.text import Text

import cwndlab
from cwndlab.errors import InputError
from cwndlab.formats import base, exporters, importers, packets
from cwndlab.formats.capture import Options
from cwndlab.report import plots
from cwndlab.report.html_report import pack
from cwndlab.results.resultset import ResultSet
from patience import PATIENCE

EXPERIMENT = """
experiment: captures
duration: 12s
hosts:
  a: {stack: STACK, cc: cubic}
  b: {stack: STACK}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 100mbit, delay: 1ms}
    bottleneck: {rate: 10mbit, delay: THERE, queue: {kind: pfifo, limit: 40p}, loss: {random: 0.3%}}
    reverse: {rate: 10mbit, delay: BACK, queue: {kind: pfifo, limit: 1000p}}
flows:
  - {name: f1, from: a, to: b, app: bulk, bytes: 6MB}
  - {name: f2, from: a, to: b, app: bulk, start: 2s, bytes: 3MB}
repeat: 1
record: {pcap: [a, b, {at: bottleneck, snaplen: 60}], tcp: per-ack}
"""

SYN_MS, ACK_MS = (bytes_ * 8 * (0.01 + 0.1 + 0.01) / 1e3 for bytes_ in (74, 66))
"""A SYN and an acknowledgement, 60 and 52 bytes and 14 of Ethernet, at 100, 10 and 100 Mbit/s."""

FLOWS = {"10.0.0.1:10000-10.0.1.1:5201": "f1", "10.0.0.1:10001-10.0.1.1:5201": "f2"}


def simulated(directory: Path, stack: str, there: str, back: str) -> ResultSet:
    text = EXPERIMENT.replace("STACK", stack).replace("THERE", there).replace("BACK", back)
    return cwndlab.load(text).run(out=directory)


@pytest.fixture(scope="module", params=["freebsd-13", "linux-6.8"])
def truth(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    return simulated(tmp_path_factory.mktemp("captures") / "truth", request.param, "20ms", "20ms")


def points(results: ResultSet, *names: str) -> list[Path]:
    return [
        next(path for path in results.captures(0) if path.name.endswith(f"-{name}.pcap")) for name in names
    ]


def imported(paths: list[Path], out: Path, options: Options | None = None) -> ResultSet:
    return importers.results(paths, options or Options(), out)


def samples(results: ResultSet, flow: str, kind: str) -> pl.DataFrame:
    rows = results.series(0, flow=flow, table="samples")
    return rows.filter(pl.col("kind").cast(pl.String) == kind)


def events(results: ResultSet, flow: str, kind: str) -> pl.DataFrame:
    rows = results.series(0, flow=flow, table="events")
    return rows.filter(pl.col("kind").cast(pl.String) == kind)


def test_counters_are_the_simulators(truth: ResultSet, tmp_path: Path) -> None:
    found = imported(points(truth, "a"), tmp_path / "found")
    counted = {flow["flow"]: flow for flow in truth.record(0).summary["flows"]}
    assert found.summary["flow"].to_list() == list(FLOWS)
    for row in found.summary.iter_rows(named=True):
        flow = counted[FLOWS[row["flow"]]]
        series = found.series(0, flow=row["flow"])
        assert (
            series["retransmits"][-1]
            == flow["retransmits"]
            == events(found, row["flow"], "retransmission").height
        )
        assert (
            series["delivered_bytes"][-1]
            == flow["goodput_bytes"]
            == {"f1": 6_000_000, "f2": 3_000_000}[flow["flow"]]
        )
        assert row["retransmit_rate"] == pytest.approx(flow["retransmits"] / flow["segments_sent"], rel=1e-5)
        # cwnd is not in packets.
        assert row["cwnd_mean_bytes"] is None and series["cwnd_bytes"].null_count() == series.height
        # Goodput counts from the first data to the last acknowledgement, completion from the SYN on.
        assert row["goodput_mbps"] == pytest.approx(
            flow["goodput_bytes"] * 8e3 / flow["completion_ns"], rel=0.03
        )


def test_round_trips_are_a_line_though_data_packets_stand_between_them(
    truth: ResultSet, tmp_path: Path
) -> None:
    found = imported(points(truth, "a"), tmp_path / "found")
    flow = next(iter(FLOWS))
    rtt = found.series(0, flow=flow)["rtt_ms"]
    assert rtt.null_count() > 100
    (line,) = (line for line in pack.lines_of(found, 0, [flow], 1.0) if line.panel == "rtt")
    assert line.y.tolist() == rtt.drop_nulls().to_list()
    drawn = np.asarray(plots.plot(found, "rtt", flows=[flow]).axes[0].get_lines()[0].get_ydata())
    assert len(drawn) > 100 and np.isfinite(drawn).all()


def test_flight_and_delivery_follow_the_sender(truth: ResultSet, tmp_path: Path) -> None:
    found = imported(points(truth, "a"), tmp_path / "found")
    for flow, name in FLOWS.items():
        ours, theirs = found.series(0, flow=flow), truth.series(0, flow=name)
        # Times of both count from different beginnings: the capture from its first packet.
        shift = (
            theirs.filter(pl.col("delivered_bytes") > 10**6)["t_s"][0]
            - ours.filter(pl.col("delivered_bytes") > 10**6)["t_s"][0]
        )
        at = ours["t_s"].to_numpy() + shift
        wanted = np.interp(at, theirs["t_s"], theirs["delivered_bytes"])
        off = np.abs(wanted - ours["delivered_bytes"].to_numpy())
        # What was acknowledged lags what was delivered by holes that SACK reports.
        assert np.median(off) < 0.005 * wanted.max() and ours["delivered_bytes"].is_sorted()


def test_both_points_give_round_trips_delays_and_losses(truth: ResultSet, tmp_path: Path) -> None:
    found = imported(points(truth, "b", "a"), tmp_path / "found")
    counted = {flow["flow"]: flow for flow in truth.record(0).summary["flows"]}
    for row in found.summary.iter_rows(named=True):
        flow = counted[FLOWS[row["flow"]]]
        drops = events(found, row["flow"], "drop")
        assert drops.height == flow["drops"] > 0
        assert row["drop_rate"] == pytest.approx(flow["drops"] / flow["segments_sent"], rel=1e-5)
        lost = truth.series(0, flow=FLOWS[row["flow"]], table="events").filter(
            pl.col("kind").cast(pl.String) == "drop"
        )
        assert drops["seq"].to_list() == lost["seq"].to_list(), "the same packets, in the same order"
        rtt = samples(found, row["flow"], "spp-rtt")["value"] / 1e6
        # 44 ms of cable; the handshake's packets take 71 us a way, data 1.45 ms behind up to 41 packets.
        least = 44 + 2 * SYN_MS
        assert least - 0.001 < rtt.min() < least + 2 and rtt.max() < 44 + 2 + 41 * 1.23
        assert flow["flow"] != "f1" or rtt.min() == pytest.approx(least, abs=0.001), "into an empty path"
        assert rtt[5:].min() >= flow["rtt"]["min_ns"] / 1e6 - 0.1
        assert row["rtt_p50_ms"] == pytest.approx(flow["rtt"]["p50_ns"] / 1e6, rel=0.08)
        there = samples(found, row["flow"], "one-way-delay")["value"] / 1e6
        back = samples(found, row["flow"], "one-way-delay-back")["value"] / 1e6
        # The clocks are the same and the path as long both ways: the correction finds that out.
        assert there.min() == pytest.approx(22 + ACK_MS, abs=0.3)
        assert back.min() == pytest.approx(22 + ACK_MS, abs=0.3)
    assert found.record(0).facts[f"{next(iter(FLOWS))}: packets seen at both points"] != "0"


def test_one_clock_gives_the_delays_as_they_are(tmp_path: Path) -> None:
    truth = simulated(tmp_path / "truth", "freebsd-13", "30ms", "5ms")
    found = imported(points(truth, "a", "b"), tmp_path / "found", Options(same_clock=True))
    flow = next(iter(FLOWS))
    there = samples(found, flow, "one-way-delay")["value"] / 1e6
    back = samples(found, flow, "one-way-delay-back")["value"] / 1e6
    assert there.min() == pytest.approx(32 + ACK_MS, abs=0.001)
    assert back.min() == pytest.approx(7 + ACK_MS, abs=0.001)
    # Synthetic packet pairs need no clock, so they are the sum.
    rtt = samples(imported(points(truth, "a", "b"), tmp_path / "again"), flow, "spp-rtt")["value"] / 1e6
    assert rtt.min() == pytest.approx(39 + 2 * SYN_MS, abs=0.001)


def shifted(path: Path, out: Path, offset_ns: int, skew: float) -> Path:
    """The capture as a clock shows it that is ahead and runs fast."""
    data = path.read_bytes()
    magic, *_ = struct.unpack("<IHHiIII", data[:24])
    assert magic == 0xA1B23C4D, "nanoseconds"
    parts, at = [data[:24]], 24
    while at < len(data):
        seconds, ns, kept, length = struct.unpack("<IIII", data[at : at + 16])
        true = seconds * 10**9 + ns
        t = 10**18 + true + offset_ns + round(true * skew)
        parts.append(
            struct.pack("<IIII", t // 10**9, t % 10**9, kept, length) + data[at + 16 : at + 16 + kept]
        )
        at += 16 + kept
    out.write_bytes(b"".join(parts))
    return out


@pytest.mark.parametrize(("offset_ns", "skew"), [(0, 0.0), (3 * 10**9, 40e-6), (-7 * 10**8, -120e-6)])
@pytest.mark.slow
def test_clocks_that_differ_are_corrected(
    truth: ResultSet, tmp_path: Path, offset_ns: int, skew: float
) -> None:
    near, far = points(truth, "a", "b")
    near = shifted(near, tmp_path / "near.pcap", 0, 0.0)
    far = shifted(far, tmp_path / "far.pcap", offset_ns, skew)
    found = imported([near, far], tmp_path / "found")
    plain = imported(points(truth, "a", "b"), tmp_path / "plain", Options(same_clock=True))
    # Two clocks are compared by the smallest delays of both ways. Where no short packet finds the queue on
    # the way of the data empty, that is longer by what a full packet takes: 1448 bytes at 10 and 100 Mbit/s.
    unknowable_ms = 1448 * 8 * (1 / 10e6 + 1 / 100e6) * 1e3 / 2
    for flow in FLOWS:
        for kind, most_ms in (
            ("one-way-delay", unknowable_ms),
            ("one-way-delay-back", unknowable_ms),
            ("spp-rtt", 0.05),
        ):
            ours, theirs = samples(found, flow, kind), samples(plain, flow, kind)
            assert ours.height == theirs.height
            off = (ours["value"] - theirs["value"]).abs() / 1e6
            # A skew that was not corrected would be 1.4 ms at the end.
            assert off.max() < most_ms, (flow, kind)
            assert (off.max() - off.min()) < 0.1, "what remains is constant: the skew is gone"
    assert found.record(0).started.startswith("2001-09-09")
    # The path takes so long at least, there and back, of which half is what two clocks leave open.
    said = [text.split(" by ")[1].split()[0] for text in found.record(0).warnings if "may be off" in text]
    ways = ("one-way-delay", "one-way-delay-back")
    halves = [sum(samples(plain, flow, kind)["value"].min() for kind in ways) / 2e6 for flow in FLOWS]
    assert sorted(map(float, said)) == pytest.approx(sorted(halves), rel=0.02)
    assert not any("may be off" in text for text in plain.record(0).warnings)
    # The same stands beside the delays.
    assert sorted(found.summary["one_way_error_ms"]) == pytest.approx(sorted(halves), rel=0.02)
    assert plain.summary["one_way_error_ms"].null_count() == len(FLOWS)
    of_flow = dict(found.summary.select("flow", "one_way_error_ms").rows())
    for results, known in ((found, of_flow), (plain, {})):
        assert (
            results.series("samples").collect()["error"].equals(results.series(0, table="samples")["error"])
        )
        for flow in FLOWS:
            off = results.series(0, flow, "samples").group_by("kind").agg(pl.col("error").unique())
            for kind, (error,) in off.rows():
                assert error == (round(known[flow] * 1e6) if kind in ways and known else None), kind
    # And in a plot of the single delays.
    for results, off in ((found, f"two clocks: off by {max(halves):.2g}"), (plain, "")):
        figure = plots.plot(results, "rtt", value="samples.one-way-delay")
        texts = " ".join(text.get_text() for text in figure.findobj(Text))
        assert ("two clocks" in texts) == bool(off) and off in texts


@pytest.mark.slow
def test_windows_are_those_asked_for(truth: ResultSet, tmp_path: Path) -> None:
    flow = next(iter(FLOWS))
    totals = {}
    for count in ("ip", "frame", "payload"):
        found = imported(points(truth, "a"), tmp_path / count, Options(window_s=0.5, step_s=0.5, count=count))
        rows = samples(found, flow, "throughput")
        assert np.allclose(np.diff(rows["t_s"]), 0.5) and rows["t_s"][0] == pytest.approx(0.25, abs=0.001)
        totals[count] = rows["value"].sum()
    counted = next(flow for flow in truth.record(0).summary["flows"] if flow["flow"] == "f1")
    # 40 bytes of IP and TCP and 12 of timestamps for each segment; the capture has no link layer.
    assert totals["frame"] == totals["ip"]
    assert totals["ip"] - totals["payload"] == pytest.approx(52 * counted["segments_sent"], rel=0.01)
    found = imported(points(truth, "a"), tmp_path / "slide", Options(window_s=1.0, step_s=0.25))
    rows, acked = samples(found, flow, "throughput"), samples(found, flow, "acked")
    assert np.allclose(np.diff(rows["t_s"]), 0.25)
    # The second flow begins after 2 s: windows without a packet are there, and zero.
    later = samples(found, list(FLOWS)[1], "throughput")
    assert later["t_s"][0] == rows["t_s"][0] and later.height == rows.height == acked.height
    assert later.filter(pl.col("t_s") < 1.4)["value"].to_list() == [0] * 4
    whole = imported(points(truth, "a"), tmp_path / "whole", Options(window_s=0.25, step_s=0.25))
    assert samples(whole, flow, "acked")["value"].sum() == 6_000_000


RECEIVER = {2: "hz: 1000", 16: "ack_every: {segments: 16}, nic: {coalesce: {time: 3ms, frames: 64}}"}
"""A receiver that acknowledges every second segment, and one that merges what comes within 3 ms."""


@pytest.mark.slow
def test_stretch_acknowledgements_show(tmp_path: Path) -> None:
    means = {}
    for segments in (2, 16):
        text = EXPERIMENT.replace("STACK", "freebsd-13").replace("THERE", "20ms").replace("BACK", "20ms")
        text = text.replace("b: {stack: freebsd-13}", f"b: {{stack: freebsd-13, {RECEIVER[segments]}}}")
        truth = cwndlab.load(text).run(out=tmp_path / f"truth{segments}")
        found = imported(points(truth, "a"), tmp_path / f"found{segments}")
        flow = next(iter(FLOWS))
        means[segments] = samples(found, flow, "segments-per-ack")["value"].mean()
        flights = samples(found, flow, "flight-per-round")
        inflight = found.series(0, flow=flow)["inflight_bytes"].max()
        assert 0 < flights["value"].max() <= inflight
        # About a round trip each: 42 to 92 ms.
        assert 0.03 < np.median(np.diff(flights["t_s"])) < 0.15
    assert means[16] > 2 * means[2] > 2


def test_captures_that_share_no_connection_are_runs_of_their_own(truth: ResultSet, tmp_path: Path) -> None:
    other = simulated(tmp_path / "other", "freebsd-9.2", "10ms", "10ms")
    found = imported([*points(truth, "a", "b"), *points(other, "a")], tmp_path / "found")
    assert found.runs.height == 2 and found.keys == ["file"]
    assert sorted(found.summary["file"].unique()) == ["0-a.pcap", "0-a.pcap + 0-b.pcap"]


def test_three_points_name_where_packets_were_lost(truth: ResultSet, tmp_path: Path) -> None:
    found = imported(points(truth, "a", "bottleneck", "b"), tmp_path / "found")
    drops = found.series(0, table="events").filter(pl.col("kind").cast(pl.String) == "drop")
    assert drops["hop"].cast(pl.String).unique().to_list() == ["0-bottleneck.pcap to 0-b.pcap"]
    counted = sum(flow["drops"] for flow in truth.record(0).summary["flows"])
    assert drops.height == counted


@pytest.mark.slow
def test_compressed_and_pcapng_files_are_the_same(truth: ResultSet, tmp_path: Path) -> None:
    near = points(truth, "a")[0]
    packed = tmp_path / "near.dmp.gz"
    packed.write_bytes(gzip.compress(near.read_bytes()))
    ng = tmp_path / "near.pcapng"
    subprocess.run(["editcap", "-F", "pcapng", near, ng], check=True, timeout=PATIENCE)
    plain = base.read(near)[0]
    for other in (packed, ng):
        assert base.read(other)[0].tables["tcp"].read() == plain.tables["tcp"].read()


def test_a_capture_cut_short_is_read_up_to_there(truth: ResultSet, tmp_path: Path) -> None:
    data = points(truth, "a")[0].read_bytes()
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(data[: len(data) // 2])
    recording = base.read(cut)[0]
    assert recording.tables["tcp"].num_rows > 1000
    assert recording.warnings == ("cut.pcap: ends in the middle of a record",)
    packed = tmp_path / "cut.pcap.gz"
    packed.write_bytes(gzip.compress(data)[:-2000])
    assert "ends in the middle" in base.read(packed)[0].warnings[0]


@pytest.mark.parametrize(
    "data", [b"\xd4\xc3\xb2\xa1", b"\xd4\xc3\xb2\xa1" + bytes(20), b"\x0a\x0d\x0d\x0a" + bytes(40)]
)
def test_what_is_no_capture_is_one_line(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "bad.pcap"
    file.write_bytes(data)
    with pytest.raises(InputError) as refused:
        base.read(file)
    assert str(refused.value).startswith(f"{file}: ") and "\n" not in str(refused.value)


def test_steps_that_do_not_fit_are_said(truth: ResultSet, tmp_path: Path) -> None:
    found = imported(points(truth, "a"), tmp_path / "found", Options(window_s=1.0, step_s=0.3))
    assert "not a multiple" in found.record(0).warnings[0]


@pytest.mark.slow
def test_samples_are_drawn_by_their_kind(truth: ResultSet, tmp_path: Path) -> None:
    found = imported(points(truth, "a", "b"), tmp_path / "found")
    for kind, value in (
        ("rtt", "samples.spp-rtt"),
        ("cdf", "samples.one-way-delay"),
        ("box", "samples.segments-per-ack"),
    ):
        metric = plots.plot(found, kind, tmp_path / f"{kind}.svg", value=value)
        assert (tmp_path / f"{kind}.svg").stat().st_size > 5000
        if kind == "rtt":
            lines = {len(line.get_xdata()) for line in metric.axes[0].lines}
            assert max(lines) > 500
            assert metric.axes[0].get_ylabel() == "round trip between the ends [ms]"
    with pytest.raises(InputError, match=r"did you mean samples\.spp-rtt"):
        plots.plot(found, "rtt", tmp_path / "rtt.svg", value="samples.sp-rtt")


@pytest.mark.slow
def test_sack_blocks_are_those_tshark_shows(truth: ResultSet, tmp_path: Path) -> None:
    (capture,) = points(truth, "a")
    found = imported([capture], tmp_path / "found")
    fields = ["ip.dst", "tcp.dstport", "tcp.options.sack_le", "tcp.options.sack_re"]
    told = subprocess.run(
        ["tshark", "-r", capture, "-o", "tcp.relative_sequence_numbers:TRUE", "-Y", "tcp.options.sack_le",
         "-T", "fields", *(word for field in fields for word in ("-e", field))],
        check=True, capture_output=True, text=True, timeout=PATIENCE,
    ).stdout  # fmt: skip
    blocks: dict[str, list[tuple[int, int]]] = {flow: [] for flow in FLOWS}
    for line in told.splitlines():
        target, port, lefts, rights = line.split("\t")
        (flow,) = (flow for flow in FLOWS if flow.startswith(f"{target}:{port}-"))
        edges = zip(map(int, lefts.split(",")), map(int, rights.split(",")), strict=True)
        # The first byte has the number 1 there.
        blocks[flow] += [(left - 1, right - left) for left, right in edges]
    assert all(blocks.values())
    for flow, expected in blocks.items():
        rows = pl.concat([events(found, flow, "sack"), events(found, flow, "duplicate-sack")])
        assert sorted(rows.select("seq", "value").rows()) == sorted(expected)


def test_a_runs_own_capture_marks_what_an_import_of_it_does(truth: ResultSet, tmp_path: Path) -> None:
    found = imported(points(truth, "a"), tmp_path / "found")
    ours, theirs = packets.marks(truth, 0), packets.marks(found, 0)
    assert set(ours["kind"]) >= {"sack", "retransmission"}
    # An import counts from its first packet.
    late = ours["t_s"][0] - theirs["t_s"][0]
    for flow, name in FLOWS.items():
        mine, other = ours.filter(pl.col("flow") == name), theirs.filter(pl.col("flow") == flow)
        for kind in packets.KINDS:
            here, there = mine.filter(pl.col("kind") == kind), other.filter(pl.col("kind") == kind)
            assert here.select("seq", "value").equals(there.select("seq", "value"))
            assert np.allclose(here["t_s"].to_numpy(), there["t_s"].to_numpy() + late, atol=1e-9)


def test_sack_blocks_and_retransmissions_are_drawn(truth: ResultSet, tmp_path: Path) -> None:
    marks = packets.marks(truth, 0).filter(pl.col("flow") == "f1")
    blocks, resent = (marks.filter(pl.col("kind") == kind) for kind in ("sack", "retransmission"))
    metric = truth.plot("sequence", run=[0], flow=["f1"])
    names = [text.get_text() for text in metric.legends[0].get_texts()]
    assert {"SACK block", "retransmitted"} <= set(names)
    bars = [bar for bar in metric.axes[0].collections if isinstance(bar, LineCollection)]
    drawn = np.array([[segment[0], segment[1]] for segment in bars[0].get_segments()])
    assert len(drawn) == blocks.height <= 1600
    assert np.allclose(drawn[:, 0, 0], blocks["t_s"]) and np.allclose(drawn[:, 0, 1], blocks["seq"] / 1e6)
    assert np.allclose(drawn[:, 1, 1], (blocks["seq"] + blocks["value"]) / 1e6)
    graph = next(iter(exporters.export(truth, "xplot", tmp_path / "out"))).read_text().splitlines()
    assert sum(line.startswith("rtext") for line in graph) == resent.height > 0
    purple = graph[graph.index("purple") + 1 :][: blocks.height + 1]
    assert all(line.startswith("line") for line in purple[:-1]) and not purple[-1].startswith("line")
    _, t_s, low, _, high = purple[0].split()
    assert float(t_s) == pytest.approx(blocks["t_s"][0], abs=1e-6)
    assert (int(low), int(high)) == (blocks["seq"][0], blocks["seq"][0] + blocks["value"][0])


def test_a_capture_of_one_direction_alone_tells_of_sack_blocks(tmp_path: Path) -> None:
    """As on live testbeds, whose captures are those of links."""
    text = EXPERIMENT.replace("STACK", "linux-6.8").replace("THERE", "20ms").replace("BACK", "20ms")
    recorded = "pcap: [a, b, {at: bottleneck, snaplen: 60}]"
    assert recorded in text
    found = []
    for at in ("a", "bottleneck.reverse"):
        results = cwndlab.load(text.replace(recorded, f"pcap: [{at}]")).run(out=tmp_path / at)
        marks = packets.marks(results, 0)
        found.append(marks.filter(pl.col("kind") == "sack").sort("flow", maintain_order=True))
    ours, theirs = found
    assert ours.height > 100
    # What is on its way from there to the host at the end is seen at the link only.
    assert (
        theirs.select("flow", "seq", "value")
        .head(ours.height - 20)
        .equals(ours.select("flow", "seq", "value").head(ours.height - 20))
    )


def packet(t_ns: int, ends: tuple[str, int, str, int], seq: int, ack: int, length: int) -> bytes:
    """A record of a capture of IP packets: a TCP segment of which only the headers were kept."""
    source, sport, target, dport = ends
    address = [bytes(map(int, host.split("."))) for host in (source, target)]
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + length, 0, 0, 64, 6, 0, *address)
    tcp = struct.pack(">HHIIBBHHH", sport, dport, seq, ack, 0x50, 0x10, 65535, 0, 0)
    return struct.pack("<IIII", t_ns // 10**9, t_ns % 10**9, 40, 40 + length) + ip + tcp


def capture_file(path: Path, packets: list[bytes]) -> Path:
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101) + b"".join(packets))
    return path


DATA = ("10.0.0.1", 10000, "10.0.1.1", 5201)
CONTROL = ("10.0.0.1", 40000, "10.0.1.1", 5201)


def turned(ends: tuple[str, int, str, int]) -> tuple[str, int, str, int]:
    return (*ends[2:], *ends[:2])


def both_ways(length: int = 1000, count: int = 500) -> tuple[list[bytes], list[bytes]]:
    """What a test of iperf3 sends: data and the bytes of its control connection, and what comes back."""
    there = [packet(n * 10**6, DATA, 1000 + n * length, 7, length) for n in range(count)]
    back = [packet(n * 10**6 + 5 * 10**5, turned(DATA), 7, 1000 + (n + 1) * length, 0) for n in range(count)]
    there.insert(3, packet(2_100_000, CONTROL, 50, 60, 1))
    back.insert(3, packet(2_200_000, turned(CONTROL), 60, 51, 1))
    return there, back


@pytest.mark.slow
def test_two_files_of_a_direction_each_are_one_capture(tmp_path: Path) -> None:
    there, back = both_ways()
    whole = capture_file(tmp_path / "whole.pcap", [p for pair in zip(there, back, strict=True) for p in pair])
    expected = imported([whole], tmp_path / "whole")
    rate = expected.summary["goodput_mbps"][0]
    assert rate == pytest.approx(8.0, rel=0.01)
    for names in (("0-access.a.pcap", "0-access.a.reverse.pcap"), ("data.pcap", "acks.pcap")):
        files = [capture_file(tmp_path / name, way) for name, way in zip(names, (there, back), strict=True)]
        for order in (files, files[::-1]):
            out = tmp_path / f"{order[0].name}-out"
            found = imported(order, out)
            assert found.summary["flow"].to_list() == ["10.0.0.1:10000-10.0.1.1:5201"]
            assert found.summary["goodput_mbps"].to_list() == [rate]
            assert found.series(0)["delivered_bytes"].max() == 500_000
    # One alone does not tell what was acknowledged.
    alone = imported([tmp_path / "0-access.a.pcap"], tmp_path / "alone")
    assert "10.0.0.1:10000-10.0.1.1:5201" in alone.summary["flow"].to_list()
    assert alone.summary["goodput_mbps"].null_count() == alone.summary.height
    assert any("holds one direction" in line for line in alone.record(0).warnings)


def test_repeated_runs_are_paired_by_their_names(tmp_path: Path) -> None:
    """Both runs have the same ports and numbers, as those of a simulation have."""
    files = []
    for run, count in enumerate((500, 250)):
        for name, way in zip(("access.a", "access.a.reverse"), both_ways(count=count), strict=True):
            files.append(capture_file(tmp_path / f"{run}-{name}.pcap", way))
    found = imported(files, tmp_path / "out")
    assert found.series(0)["delivered_bytes"].max() == 500_000
    assert found.summary["goodput_mbps"].null_count() == 0


def test_iperf3s_control_connection_is_no_flow(tmp_path: Path) -> None:
    there, back = both_ways()
    file = capture_file(tmp_path / "x.pcap", [p for pair in zip(there, back, strict=True) for p in pair])
    found = imported([file], tmp_path / "out")
    assert found.summary["flow"].to_list() == ["10.0.0.1:10000-10.0.1.1:5201"]
    assert found.summary["jain"].to_list() == [None] or found.summary["jain"].to_list() == [1.0]
    assert found.record(0).warnings == ["x.pcap: 1 control connections of iperf3 are left out"]
    # Another small connection stays: it is to another port.
    other = ("10.0.0.1", 40000, "10.0.1.1", 22)
    there[3], back[3] = packet(2_100_000, other, 50, 60, 1), packet(2_200_000, turned(other), 60, 51, 1)
    file = capture_file(tmp_path / "y.pcap", [p for pair in zip(there, back, strict=True) for p in pair])
    assert imported([file], tmp_path / "y").summary.height == 3


def test_captures_without_tcp_are_skipped_and_named(tmp_path: Path) -> None:
    place = tmp_path / "captures"
    place.mkdir()
    there, back = both_ways()
    capture_file(place / "a.pcap", [])
    capture_file(place / "b.pcap", [p for pair in zip(there, back, strict=True) for p in pair])
    capture_file(place / "c.pcap", [packet(1, DATA, 1, 1, 0)])
    skipped: list[str] = []
    found = importers.results([place], Options(), tmp_path / "out", skipped)
    assert found.summary.height == 1
    empty = "no TCP packet in this capture: it is empty"
    assert skipped == [
        f"{place / 'a.pcap'}: {empty}",
        f"{place / 'c.pcap'}: none of its 1 TCP packets has data",
    ]
    (place / "b.pcap").unlink()
    with pytest.raises(
        InputError, match=r"a\.pcap: no TCP packet in this capture: it is empty, nor in the others"
    ):
        importers.results([place], Options(), tmp_path / "none")
    with pytest.raises(InputError, match=r"it is empty$"):
        importers.results([place / "a.pcap"], Options(), tmp_path / "none")
