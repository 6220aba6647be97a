"""Files that TEACUP's analysis extracted, one flow each, alone and as a tree of results."""

from collections.abc import Callable
from pathlib import Path

import logs
import numpy as np
import polars as pl
import pytest

from cwndlab.errors import InputError
from cwndlab.formats import importers
from cwndlab.formats.base import Recording
from cwndlab.formats.capture import Options
from cwndlab.results.resultset import ResultSet
from cwndlab_teacup import extracted

THERE = "10.0.0.1_40000_10.0.1.1_5001"
BACK = "10.0.1.1_5001_10.0.0.1_40000"
TEST = "exp_tcp_cubic_del_20_run_0"


def read(path: Path, content: str) -> Recording:
    path.write_text(content)
    (found,) = extracted.read(path)
    return found


def tree(directory: Path) -> Path:
    """Files that TEACUP leaves of a test: packets and round trips both ways, cwnd and RTT of the sender."""
    directory.mkdir()
    for name, content in {
        f"{THERE}.psiz": logs.psiz(),
        f"{BACK}.psiz": logs.psiz(52),
        f"{THERE}.rtts": logs.rtts(),
        f"{BACK}.rtts": logs.rtts(),
        f"{THERE}_siftr.cwnd": logs.extracted_cwnd(),
        f"{THERE}_siftr.tcp_rtt": logs.tcp_rtt(),
        "total.psiz": logs.psiz(),
    }.items():
        (directory / f"{TEST}_{name}").write_text(content)
    return directory


@pytest.mark.parametrize(
    ("name", "content", "column", "ends"),
    [
        (f"{TEST}_{THERE}.psiz", logs.psiz, "arrived_bytes", (1500, 1500 * logs.ROWS)),
        (f"{THERE}.psiz.tscorr", logs.psiz, "arrived_bytes", (1500, 1500 * logs.ROWS)),
        (f"{TEST}_{THERE}.rtts", logs.rtts, "rtt_ns", (40_000_000, 59_000_000)),
        (f"{TEST}_{THERE}_siftr.cwnd", logs.extracted_cwnd, "cwnd_bytes", (14_480, 29 * logs.MSS)),
        (f"{TEST}_{THERE}_web10g.tcp_rtt", logs.tcp_rtt, "srtt_ns", (40_000_000, 59_000_000)),
    ],
)
def test_a_file_is_a_flow_with_its_column(
    tmp_path: Path, name: str, content: Callable[[], str], column: str, ends: tuple[int, int]
) -> None:
    text = content()
    assert extracted.recognises(text.encode())
    found = read(tmp_path / name, text)
    assert found.flows == (logs.FLOW,) and not found.warnings
    values = found.tables["tcp"].read()[column].to_pylist()
    assert (values[0], values[-1]) == ends and len(values) == logs.ROWS
    assert found.started is not None and found.started.timestamp() == logs.START


@pytest.mark.parametrize(
    ("content", "metric"),
    [(logs.psiz, "throughput_mbps"), (logs.rtts, "rtt_max_ms"), (logs.extracted_cwnd, "cwnd_max_bytes")],
)
def test_a_file_of_another_name_is_told_by_its_lines(
    tmp_path: Path, content: Callable[[], str], metric: str
) -> None:
    found = read(tmp_path / "data.txt", "cut off\n" + content() + "1400")
    assert found.flows == ("flow",) and metric in found.metrics["flow"]
    assert "does not say the flow" in found.warnings[-1]


@pytest.mark.parametrize("line", ["1 2", "1400000000.123456 text", "1400000000.1 1500", "1400000000,1500"])
def test_other_files_are_not_taken_for_it(line: str) -> None:
    assert not extracted.recognises(f"{line}\n".encode() * 20)
    assert not extracted.recognises(logs.psiz().encode() + f"{line}\n".encode() * 2)


def test_the_files_of_a_test_are_one_run_with_all_columns(tmp_path: Path) -> None:
    found = imported(tree(tmp_path / "tree"), tmp_path / "out")
    (row,) = found.summary.iter_rows(named=True)
    assert (row["flow"], row["tcp"], row["del"]) == (logs.FLOW, "cubic", "20")
    assert row["throughput_mbps"] == pytest.approx(
        8e-6 * 1500 * logs.ROWS / (0.1 * (logs.ROWS - 1)), rel=1e-5
    )
    assert row["rtt_min_ms"] == 40 and row["cwnd_max_bytes"] == 29 * logs.MSS
    rows = found.series(0)
    for column in ("arrived_bytes", "rtt_ms", "srtt_ms", "cwnd_bytes"):
        assert rows.height - rows[column].null_count() == logs.ROWS, column
    assert f"only acknowledge: {logs.FLOW.partition('-')[2]}" in found.record(0).warnings[0]


def test_corrected_times_win_and_counters_never_fall(tmp_path: Path) -> None:
    place = tree(tmp_path / "tree")
    lines = logs.psiz().splitlines()
    lines[9:11] = [lines[9].replace(".", ".5"), lines[10]]
    (place / f"{TEST}_{THERE}.psiz.tscorr").write_text("\n".join([*lines[:12], ""]))
    arrived = imported(place, tmp_path / "out").series(0)["arrived_bytes"].drop_nulls().to_numpy()
    assert len(arrived) == 12 and (np.diff(arrived) == 1500).all()


def test_what_it_was_extracted_of_wins(tmp_path: Path) -> None:
    place = tree(tmp_path / "tree")
    (place / f"{TEST}_10.0.0.1_siftr.log").write_text(logs.siftr9())
    rows = imported(place, tmp_path / "out").series(0, flow=logs.FLOW)
    logged = rows.filter(pl.col("cwnd_bytes").is_not_null())
    # Each row of cwnd is of SIFTR, which has a threshold beside it; packets are only in what was extracted.
    assert logged.height == logs.ROWS and logged["ssthresh_bytes"].drop_nulls().len() > 0
    assert rows["arrived_bytes"].max() == 1500 * logs.ROWS


def test_two_loggers_of_one_flow_are_told(tmp_path: Path) -> None:
    place = tree(tmp_path / "tree")
    (place / f"{TEST}_{THERE}_web10g.cwnd").write_text(logs.extracted_cwnd())
    found = imported(place, tmp_path / "out")
    assert any("_web10g.cwnd is left out" in said for said in found.record(0).warnings)


def test_a_file_without_such_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.psiz: data of TEACUP's analysis without a record"):
        read(tmp_path / f"{THERE}.psiz", "nothing of it\n")


def imported(path: Path, out: Path) -> ResultSet:
    return importers.results([path], Options(), out)
