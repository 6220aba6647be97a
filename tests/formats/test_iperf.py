"""iperf 2 and iperf3: what real files of both say, and what becomes of damaged ones."""

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cwndlab.errors import InputError
from cwndlab.formats import base, iperf3, iperf_text
from cwndlab.formats.base import Recording

FILES = Path(__file__).parent / "iperf"
"""Written by iperf 2.1.8 and iperf3 3.12 over loopback, at 50 Mbit/s a connection for 3 s."""


def read(name: str) -> Recording:
    (recording,) = base.read(FILES / name)
    return recording


def counted(recording: Recording, flow: str, column: str) -> list[int | None]:
    rows = recording.tables["tcp"].read().to_pylist()
    return [row[column] for row in rows if row["flow"] == flow]


def test_goodput_of_iperf3_is_the_receivers() -> None:
    recording = read("parallel3.json")
    assert recording.flows == ("f1", "f2")
    # 18,743,296 bytes in the 3.003489 s that the receiver measured.
    assert recording.metrics["f1"]["goodput_mbps"] == pytest.approx(8 * 18_743_296 / 3.003489 / 1e6)
    assert recording.started == datetime(2026, 11, 21, 14, 11, 2, tzinfo=UTC)
    assert recording.facts["cc"] == "bbr"


def test_omitted_intervals_of_iperf3_do_not_count() -> None:
    recording = read("parallel3.json")
    assert counted(recording, "f1", "delivered_bytes") == [6_291_456, 12_582_912, 18_743_296]
    assert counted(recording, "f1", "srtt_ns") == [81_000, 73_000, 101_000]
    assert counted(recording, "f1", "retransmits") == [0, 0, 0]
    assert recording.metrics["f1"]["rtt_mean_ms"] == 0.077
    assert recording.metrics["f1"]["retransmit_rate"] == 0


def test_the_receiving_side_knows_no_rtt_and_claims_none() -> None:
    assert set(read("reverse3.json").metrics["f1"]) == {"goodput_mbps"}
    assert counted(read("reverse3.json"), "f1", "srtt_ns") == [None, None, None]


def test_loss_of_datagrams(tmp_path: Path) -> None:
    document = json.loads((FILES / "datagrams3.json").read_text())
    document["end"]["streams"][0]["udp"]["lost_packets"] = 29
    document["end"]["sum_received"] |= {"bytes": 950_000, "bits_per_second": 2_500_000.0}
    file = tmp_path / "half.json"
    file.write_text(json.dumps(document))
    (recording,) = base.read(file)
    assert recording.metrics["f1"] == {"drop_rate": 0.5, "goodput_mbps": 2.5}
    # Without the sum: what was sent less what was lost.
    del document["end"]["sum_received"]
    file.write_text(json.dumps(document))
    assert base.read(file)[0].metrics["f1"]["goodput_mbps"] == pytest.approx(5.067923062949253 / 2)
    # Nobody told what arrived.
    document["end"]["sum_received"] = {"bytes": 0, "bits_per_second": 0, "seconds": 0}
    file.write_text(json.dumps(document))
    (recording,) = base.read(file)
    assert "goodput_mbps" not in recording.metrics["f1"]
    assert recording.warnings == ("half.json: what arrived of f1 is not known",)


def test_goodput_of_several_streams_of_datagrams_adds_up_to_what_arrived(tmp_path: Path) -> None:
    document = json.loads((FILES / "datagrams3.json").read_text())
    (stream,) = document["end"]["streams"]
    other = json.loads(json.dumps(stream))
    other["udp"] |= {"socket": 99, "lost_packets": other["udp"]["packets"] // 2}
    document["end"]["streams"].append(other)
    document["end"]["sum_received"] |= {"bits_per_second": 6_000_000.0}
    file = tmp_path / "two.json"
    file.write_text(json.dumps(document))
    (recording,) = base.read(file)
    goodput = [recording.metrics[flow]["goodput_mbps"] for flow in ("f1", "f2")]
    assert goodput == pytest.approx([4.0, 2.0])


def test_a_receiver_that_told_nothing_is_not_a_goodput_of_zero(tmp_path: Path) -> None:
    text = (FILES / "client3.txt").read_text()
    lines = [
        re.sub(r"sec .*receiver", "sec  0.00 Bytes  0.00 bits/sec                  receiver", line)
        for line in text.split("\n")
    ]
    file = tmp_path / "interrupted.txt"
    file.write_text("\n".join(lines))
    (recording,) = base.read(file)
    sent = re.search(r"([\d.]+) Mbits/sec.*sender", text)
    assert sent and recording.metrics["f1"]["goodput_mbps"] == float(sent[1])
    assert "one side of f1 told nothing" in recording.warnings[0]
    document = json.loads((FILES / "parallel3.json").read_text())
    for stream in document["end"]["streams"]:
        stream["receiver"] |= {"bytes": 0, "bits_per_second": 0}
    file.write_text(json.dumps(document))
    (recording,) = base.read(file)
    sender = document["end"]["streams"][0]["sender"]
    assert recording.metrics["f1"]["goodput_mbps"] == sender["bits_per_second"] / 1e6
    assert "receiver of f1, f2 told nothing" in recording.warnings[0]


def test_datagrams_that_nobody_counted_have_no_goodput(tmp_path: Path) -> None:
    file = tmp_path / "datagrams.txt"
    file.write_text(
        "[  5]   0.00-1.00   sec  1.00 MBytes  8.39 Mbits/sec  32\n"
        "[  5]   0.00-2.00   sec  2.00 MBytes  8.39 Mbits/sec  0.000 ms  0/64 (0%)  sender\n"
        "[  5]   0.00-2.00   sec  0.00 Bytes  0.00 bits/sec  0.000 ms  0/0 (0%)  receiver\n"
    )
    (recording,) = base.read(file)
    assert recording.metrics["f1"] == {} and "of datagrams it is not known" in recording.warnings[0]


def test_text_around_a_document_and_numbers_that_json_lacks(tmp_path: Path) -> None:
    whole = (FILES / "datagrams3.json").read_text()
    odd, count = re.subn(r'"lost_percent":\s*[\d.]+', '"lost_percent": -nan', whole)
    assert count
    file = tmp_path / "odd.json"
    file.write_text(f"$ iperf3 -u -J -c 10.0.0.2\n{odd}\niperf3: error - it is over\n")
    (recording,) = base.read(file)
    assert recording.metrics == read("datagrams3.json").metrics
    assert [warning.partition("read: ")[2] for warning in recording.warnings] == [
        "$ iperf3 -u -J -c 10.0.0.2",
        "iperf3: error - it is over",
    ]


@pytest.mark.parametrize("name", ["parallel3.json", "datagrams3.json"])
def test_a_rate_that_is_no_number_is_that_of_the_bytes(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    odd = re.sub(r'"bits_per_second":\s*[\d.e+]+', '"bits_per_second": -nan', (FILES / name).read_text())
    file.write_text(odd)
    (recording,), known = base.read(file), read(name).metrics
    for flow, metrics in known.items():
        assert recording.metrics[flow] == pytest.approx(metrics, rel=2e-3)


def test_runs_without_an_end_are_their_intervals_so_far(tmp_path: Path) -> None:
    document = json.loads((FILES / "parallel3.json").read_text())
    intervals = document["intervals"][:-1]
    events = [{"event": "start", "data": document["start"]}]
    events += [{"event": "interval", "data": interval} for interval in intervals]
    text = json.dumps(document, indent=1)
    last = text.rindex('"sum"', 0, text.index('"end": {\n'))
    cases = {
        "stream": "\n".join(map(json.dumps, events)),
        "stream-cut": "\n".join(map(json.dumps, events)) + '\n{"event": "interval", "data": {"str',
        "stream-error": "\n".join(map(json.dumps, [*events, {"event": "error", "data": "interrupt"}])),
        "document": json.dumps(document | {"intervals": intervals, "end": {}, "error": "interrupt"}),
        "document-cut": text[:last],
    }
    counted = [each for each in document["intervals"] if not each["sum"]["omitted"]]
    for name, content in cases.items():
        file = tmp_path / name
        file.write_text(content)
        (recording,) = base.read(file)
        mine = [each["streams"][0] for each in (counted if name == "document-cut" else counted[:-1])]
        rows = recording.tables["tcp"].read().to_pylist()
        assert sum(row["flow"] == "f1" for row in rows) == len(mine), name
        sent = sum(each["bytes"] for each in mine)
        seconds = mine[-1]["end"] - mine[0]["start"]
        assert recording.metrics["f1"]["goodput_mbps"] == pytest.approx(8e-6 * sent / seconds), name
        assert any("has no end: metrics are of the" in warning for warning in recording.warnings), name


def test_a_run_that_is_only_an_error_hides_no_other(tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    whole = (FILES / "parallel3.json").read_text()
    file.write_text('{"start": {}, "intervals": [], "end": {}, "error": "unable to connect"}\n' + whole)
    (recording,) = base.read(file)
    assert recording.label == "two.json #2" and recording.metrics == read("parallel3.json").metrics
    assert recording.warnings == ("two.json #1: iperf3 ended with an error: unable to connect",)


def test_several_documents_and_streamed_events_are_runs(tmp_path: Path) -> None:
    whole = json.loads((FILES / "parallel3.json").read_text())
    several = tmp_path / "several.json"
    for between in ("\n", "", " "):
        several.write_text(between.join(json.dumps(whole) for _ in range(3)))
        labels = [recording.label for recording in base.read(several)]
        assert labels == [f"several.json #{n}" for n in (1, 2, 3)]
    events = [
        ("start", whole["start"]),
        *(("interval", i) for i in whole["intervals"]),
        ("end", whole["end"]),
    ]
    streamed = tmp_path / "streamed.json"
    streamed.write_text("\n".join(json.dumps({"event": event, "data": data}) for event, data in 2 * events))
    first, second = base.read(streamed)
    assert first.metrics == second.metrics == read("parallel3.json").metrics
    assert first.tables["tcp"].read().equals(read("parallel3.json").tables["tcp"].read())


def test_the_summary_line_is_no_sample() -> None:
    for name in ("client2.txt", "client2-e.txt", "client2.csv", "client3.txt"):
        assert read(name).tables["tcp"].num_rows == 3, name
    assert read("client2.txt").metrics["f1"] == {"goodput_mbps": 52.4}
    assert counted(read("client2.txt"), "f1", "delivered_bytes") == [6_553_600, 13_107_200, 19_660_800]
    assert read("client2.csv").metrics["f1"] == {"goodput_mbps": 52.272608}


def test_windows_and_rtt_of_enhanced_iperf() -> None:
    recording = read("client2-e.txt")
    assert counted(recording, "f1", "cwnd_bytes") == [767 * 1024] * 3
    assert counted(recording, "f1", "srtt_ns") == [1_981_000, 106_000, 115_000]
    assert recording.metrics["f1"]["rtt_max_ms"] == 1.981
    assert recording.started == datetime(2026, 11, 21, 14, 11, 18, tzinfo=UTC)


def test_a_servers_log_holds_a_run_for_each_test() -> None:
    two = base.read(FILES / "server2.txt")
    assert [recording.flows for recording in two] == [("f1",), ("f1",), ("f1", "f2"), ("f1",)]
    three = base.read(FILES / "server3.txt")
    assert [recording.flows for recording in three] == [("f1", "f2"), ("f1",), ("f1",), ("f1",)]
    assert three[0].metrics["f1"] == {"goodput_mbps": 49.9}


def test_a_lone_line_is_the_whole_and_a_log_cut_off_says_so(tmp_path: Path) -> None:
    lone = tmp_path / "lone.txt"
    lone.write_text("[  3]  0.0-30.0 sec  3.23 GBytes   925 Mbits/sec\n")
    (recording,) = base.read(lone)
    assert (recording.metrics["f1"], recording.tables["tcp"].num_rows) == ({"goodput_mbps": 925.0}, 0)
    cut = tmp_path / "cut.txt"
    lines = (FILES / "client2.txt").read_text().splitlines(keepends=True)
    cut.write_text("".join(lines[:-1]))
    (recording,) = base.read(cut)
    assert recording.warnings == ("cut.txt: no summary of f1: cut off before its end",)
    assert recording.metrics["f1"]["goodput_mbps"] == pytest.approx(3 * 6.25 * 2**20 * 8 / 3 / 1e6)


def test_compressed_files_are_read(tmp_path: Path) -> None:
    packed = tmp_path / "client.txt.gz"
    packed.write_bytes(gzip.compress((FILES / "client2.txt").read_bytes()))
    assert base.read(packed)[0].metrics == read("client2.txt").metrics


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"hello\n", "of no known format"),
        (b"Client connecting to 10.0.0.1, TCP port 5001\n", "holds no run (iperf text)"),
        (
            b'{"start": {"test_start": {}}, "error": "unable to connect"}',
            "ended with an error: unable to connect",
        ),
        (b'{"start": {"test_start": {}}}', "no intervals, no streams at its end"),
        (b'{"start": {"test_start": {}}, "end": {"streams": []}}', "no intervals, no streams at its end"),
        (b'{"start":\n {"test_start": {}', "no intervals, no streams at its end"),
        (b'{"start":\n {"test_start": {],,}}}', ":2: not JSON"),
        (b'{"error": "unable to send control message"}', "bad: iperf3 ended with an error: unable to send"),
        (
            b'{"event": "error", "data": "unable to connect to server"}\n{"event": "end", "data": {}}',
            "ended with an error: unable to connect",
        ),
        (b'{"cookie": 1, "start": [], "end": []}', "not a whole document of iperf3"),
        (b'{"test_start": ' + b"[" * 100_000, "nested too deeply"),
        (b"\x1f\x8b\x08\x00garbage", "not whole as a gzip file"),
    ],
)
def test_unreadable_files_get_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "bad"
    file.write_bytes(content)
    with pytest.raises(InputError) as error:
        base.read(file)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_gets_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        base.read(tmp_path / "none.json")


SAMPLES = [path.read_bytes() for path in sorted(FILES.iterdir())]


@given(st.sampled_from(SAMPLES), st.data())
@pytest.mark.slow
def test_damaged_files_never_crash(
    tmp_path_factory: pytest.TempPathFactory, sample: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged)))
        piece = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"1e999", b"-1", b"null", b"{}", b"[]", b'"'])
        )
        damaged[at : at + data.draw(st.integers(0, 40))] = piece
    file = tmp_path_factory.mktemp("damaged") / "file"
    file.write_bytes(bytes(damaged))
    for module in (iperf3, iperf_text):
        try:
            recordings = module.read(file)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert all(recording.format == module.NAME for recording in recordings)
