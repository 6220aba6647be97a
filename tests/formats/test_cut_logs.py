"""Logs that are cut off, run together or of a rare layout: nothing of them becomes another flow or time."""

import re
from pathlib import Path

import logs
import numpy as np
import pytest

from cwndlab.errors import InputError
from cwndlab.formats import base, importers
from cwndlab.formats.base import Recording
from cwndlab.formats.capture import Options
from cwndlab.testbeds.logs import connections


def read(tmp_path: Path, content: str | bytes, name: str = "log") -> list[Recording]:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return base.read(tmp_path / name)


def seconds(recording: Recording) -> list[float]:
    return [t_ns / 1e9 for t_ns in recording.tables["tcp"].read()["t_ns"].to_pylist()]


def windows(recording: Recording, flow: str = logs.FLOW) -> list[int]:
    rows = recording.tables["tcp"].read().to_pylist()
    return [row["cwnd_bytes"] for row in rows if row["flow"] == flow]


WHOLE = [n / 10 for n in range(logs.ROWS)]

UPTIME = re.sub(
    r"^(\d+)\.", lambda found: f"{int(found[1]) + 5118}.", logs.tcp_probe_old(), flags=re.MULTILINE
)

TIMED = {
    "log": UPTIME,
    "web10g": logs.web10g_bare(),
    "ss": logs.ss(),
    "x_10.0.0.1_40000_10.0.1.1_5001.psiz": logs.psiz(),
    "x_10.0.0.1_40000_10.0.1.1_5001.rtts": logs.rtts(),
    "x_10.0.0.1_40000_10.0.1.1_5001.cwnd": logs.extracted_cwnd(),
    "x_10.0.0.1_40000_10.0.1.1_5001.tcp_rtt": logs.tcp_rtt(),
}


@pytest.mark.parametrize("cut", [1, 2])
@pytest.mark.parametrize("name", TIMED)
def test_a_first_line_cut_off_within_its_time_is_left_out(tmp_path: Path, name: str, cut: int) -> None:
    (recording,) = read(tmp_path, TIMED[name][cut:], name)
    assert seconds(recording) == pytest.approx(WHOLE[:-1])
    # Two digits less are no time of a transcript: that sample has none.
    said = "samples without a time" if (name, cut) == ("ss", 2) else connections.TORN
    assert said in " ".join(recording.warnings)


@pytest.mark.parametrize(
    ("first", "second"), [(9, 11), (99, 101), (12, 4000), (1_400_000_000, 1_400_000_001), (5, 5)]
)
def test_a_first_time_that_is_whole_is_believed(first: int, second: int) -> None:
    times = np.array([first, second]) * 10**9
    assert not connections.starts_torn(times) and not connections.starts_torn(times[:1])


@pytest.mark.parametrize("name", [name for name in TIMED if name.startswith("x_")] + ["log"])
def test_a_last_line_cut_off_within_its_value_is_left_out(tmp_path: Path, name: str) -> None:
    (recording,) = read(tmp_path, TIMED[name][:-3], name)
    assert seconds(recording) == pytest.approx(WHOLE[:-1])
    assert "1 lines are no records" in " ".join(recording.warnings)


def test_a_log_of_the_old_module_begins_again_with_its_times(tmp_path: Path) -> None:
    found = read(tmp_path, UPTIME + logs.tcp_probe_old())
    assert [recording.label for recording in found] == ["log #1", "log #2"]
    assert [seconds(recording) for recording in found] == [pytest.approx(WHOLE)] * 2


@pytest.mark.parametrize("text", [logs.siftr2_text(), logs.siftr25_text()])
@pytest.mark.parametrize("cut", [5, 30])
def test_a_first_record_of_siftr2_that_is_cut_off_is_no_flow(tmp_path: Path, text: str, cut: int) -> None:
    (recording,) = read(tmp_path, text.partition("\n")[2][cut:])
    assert recording.flows == (logs.FLOW,) and "1 lines are no records" in recording.warnings
    assert windows(recording) == [logs.cwnd(n) for n in range(1, logs.ROWS)]


@pytest.mark.parametrize("change", ["\trec_fmt=txt", "siftrver=2.5\trec_fmt=txt"])
def test_columns_of_siftr2_say_its_layout_whatever_the_header_says(tmp_path: Path, change: str) -> None:
    (recording,) = read(tmp_path, logs.siftr25_text().replace(change, "\tsiftrver=2.4"))
    assert windows(recording) == [logs.cwnd(n) for n in range(logs.ROWS)]


@pytest.mark.parametrize("cut", [4, 36, 40])
def test_binary_records_of_siftr2_are_not_counted_from_within_one(tmp_path: Path, cut: int) -> None:
    headless = logs.siftr25_binary().partition(b"\n")[2]
    with pytest.raises(InputError, match="no known format"):
        read(tmp_path, headless[cut:])


def test_a_footer_within_binary_records_is_none(tmp_path: Path) -> None:
    whole = logs.siftr25_binary()
    (recording,) = read(tmp_path, whole + whole.partition(b"\n")[2])
    assert recording.flows == (logs.FLOW,) and recording.tables["tcp"].num_rows == logs.ROWS
    assert "bytes behind the footer are left out" in " ".join(recording.warnings)


@pytest.mark.parametrize(
    "texts", [(logs.siftr13(), logs.siftr2_text()), (logs.siftr2_text(), logs.siftr13())]
)
def test_sessions_of_the_other_module_are_told(tmp_path: Path, texts: tuple[str, str]) -> None:
    (recording,) = read(tmp_path, "".join(texts))
    assert recording.tables["tcp"].num_rows == logs.ROWS
    assert f"{logs.ROWS} lines of sessions without a record are left out" in recording.warnings


@pytest.mark.parametrize("usecs", ["", "-1", "9" * 30, "\u0663"])
def test_a_header_without_a_time_is_told_in_words(tmp_path: Path, usecs: str) -> None:
    text = logs.siftr2_text().replace("enable_time_usecs=000000", f"enable_time_usecs={usecs}", 1)
    with pytest.raises(
        InputError, match=r"not a header of siftr2: enable_time_secs=\d+ and enable_time_usecs="
    ):
        read(tmp_path, text)


DETAILS = "cubic wscale:7,7 rto:244 rtt:40/0.5 mss:1448 cwnd:{} bytes_acked:1"
ENDS = "ESTAB 0 0 10.0.0.1:40000 10.0.1.1:5001"


@pytest.mark.parametrize(
    "between",
    [
        "ESTAB 0 0 10.0.0.1:40002 10.0.1.1:http\n\t ",
        "???\n\t ",
        "ESTAB 0 0 *:40002 \n",
        "",
    ],
)
def test_details_belong_to_one_connection(tmp_path: Path, between: str) -> None:
    blocks = [
        f"{logs.START + n}.0\n{ENDS}\n\t {DETAILS.format(10 + n)}\n{between}{DETAILS.format(99)}\n"
        for n in range(3)
    ]
    (recording,) = read(tmp_path, "".join(blocks))
    assert windows(recording) == [logs.cwnd(n) for n in range(3)]
    blocks = [f"{logs.START + n}.0\n{ENDS}\n{between}{DETAILS.format(99)}\n" for n in range(3)]
    (recording,) = read(tmp_path, "".join(blocks))
    assert (logs.FLOW in recording.flows) == (not between)


@pytest.mark.parametrize(
    ("moment", "first"),
    [
        ("140000000{}000000000", logs.START),
        ("140000000{}000", logs.START),
        ("140000000{}000000", logs.START),
        ("140000000{}.0000000000", logs.START),
        ("140000000{},0", logs.START),
        ("[140000000{}.0]", logs.START),
        ("# 140000000{}.0", logs.START),
        ("2014/05/13 16:53:2{}", logs.START),
        ("2014-05-13T16:53:2{}+02", logs.START - 7200),
        ("Tue May 13 04:53:2{} PM UTC 2014", logs.START),
        ("Tue May 13 12:53:2{} AM UTC 2014", logs.START - 16 * 3600),
        ("Tue May 13 16:53:2{} +03 2014", logs.START - 10800),
        ("Tue 13 May 16:53:2{} UTC 2014", logs.START),
        ("Tue 13 May 2014 04:53:2{} PM UTC", logs.START),
        ("Tue, 13 May 2014 16:53:2{} +0200", logs.START - 7200),
    ],
)
@pytest.mark.parametrize(
    "layout",
    [
        "{moment}\n{ends}\n\t {details}\n",
        "{moment} {ends} {details}\n",
        "{moment} {ends}\n{moment} {details}\n",
    ],
)
def test_forms_of_a_time(tmp_path: Path, moment: str, first: int, layout: str) -> None:
    lines = [
        layout.format(moment=moment.format(n), ends=ENDS, details=DETAILS.format(10 + n)) for n in range(3)
    ]
    (recording,) = read(tmp_path, "".join(lines))
    assert recording.started is not None and recording.started.timestamp() == first
    assert recording.flows == (logs.FLOW,) and seconds(recording) == [0, 1, 2]
    assert windows(recording) == [logs.cwnd(n) for n in range(3)]


def test_samples_without_a_time_are_left_out_beside_others(tmp_path: Path) -> None:
    (recording,) = read(tmp_path, logs.ss().partition("\n")[2])
    assert seconds(recording) == pytest.approx(WHOLE[:-1])
    assert recording.warnings == ("1 samples without a time are left out",)


def test_hosts_with_a_dash_in_their_names_have_two_directions(tmp_path: Path) -> None:
    for name, size in (("t_h-1_5000_h-2_5001", 1500), ("t_h-2_5001_h-1_5000", 52)):
        (tmp_path / f"{name}.psiz").write_text(logs.psiz(size))
    (run,) = importers.read([tmp_path], Options())
    assert run.recording.flows == ("h-1:5000-h-2:5001",)
