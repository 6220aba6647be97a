"""iperf 2 and iperf3: what real files of both say, and what becomes of damaged ones."""

import gzip
import json
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
    rows = recording.tables["tcp"].to_pylist()
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
    file = tmp_path / "half.json"
    file.write_text(json.dumps(document))
    (recording,) = base.read(file)
    metrics = recording.metrics["f1"]
    assert metrics["drop_rate"] == 0.5
    assert metrics["goodput_mbps"] == pytest.approx(5.067923062949253 / 2)


def test_several_documents_and_streamed_events_are_runs(tmp_path: Path) -> None:
    whole = json.loads((FILES / "parallel3.json").read_text())
    several = tmp_path / "several.json"
    several.write_text("\n".join(json.dumps(whole) for _ in range(3)))
    assert [recording.label for recording in base.read(several)] == [f"several.json #{n}" for n in (1, 2, 3)]
    events = [
        ("start", whole["start"]),
        *(("interval", i) for i in whole["intervals"]),
        ("end", whole["end"]),
    ]
    streamed = tmp_path / "streamed.json"
    streamed.write_text("\n".join(json.dumps({"event": event, "data": data}) for event, data in 2 * events))
    first, second = base.read(streamed)
    assert first.metrics == second.metrics == read("parallel3.json").metrics
    assert first.tables["tcp"].equals(read("parallel3.json").tables["tcp"])


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
        (b'{"start": {"test_start": {}}}', "not a whole document of iperf3 (no 'end')"),
        (b'{"start": {"test_start": {}}, "end": {"streams": []}}', "no streams at its end"),
        (b'{"start":\n {"test_start": {}', ":2: not JSON"),
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
