"""Series of other tools' recordings: made in one pass over the rows, whatever batches these come in."""

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cwndlab.analysis import recorded
from cwndlab.formats import base
from cwndlab.formats.external_sort import StoredTable
from patience import PATIENCE


def of(size: int, **columns: Any) -> recorded.Recorded:
    """Read rows in batches of a size."""
    table = base.rows("tcp", **columns)
    batches = table.combine_chunks().to_batches(max_chunksize=size)
    return recorded.of_table(StoredTable(table.schema, table.num_rows, 0, lambda: iter(batches)))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_levels_are_means_of_seconds(size: int) -> None:
    found = of(
        size,
        t_ns=[0, 5 * 10**8, 10**9, 11 * 10**8, 12 * 10**8, 3 * 10**9],
        flow=pa.array(["a", "a", "a", "b", "b", "b"]).dictionary_encode(),
        cwnd_bytes=[10, 30, 50, 70, 90, None],
        srtt_ns=[None, None, None, None, None, 2 * 10**6],
    )
    assert found.series("cwnd_mean_bytes") == pytest.approx([20, 70])
    assert found.series("rtt_mean_ms") == pytest.approx([2])
    # Of each flow its own seconds, which weigh the same.
    assert found.mean("a", "cwnd_mean_bytes") == pytest.approx((20 + 50) / 2)
    assert found.mean("b", "cwnd_mean_bytes") == pytest.approx(80)
    assert found.mean("a", "rtt_mean_ms") is None
    assert found.mean("b", "rtt_mean_ms") == pytest.approx(2)
    assert not len(found.series("goodput_mbps"))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_rates_are_those_of_the_intervals_that_a_tool_reported(size: int) -> None:
    """Two flows, whose reports come up to 1 ms apart; one ends a second before the other."""
    found = of(
        size,
        t_ns=[999_999_000, 1_000_400_000, 2_000_000_000, 2_000_900_000, 3_000_000_000],
        flow=pa.array(["a", "b", "b", "a", "a"]).dictionary_encode(),
        delivered_bytes=[10**6, 5 * 10**5, 15 * 10**5, 3 * 10**6, 9 * 10**6],
    )
    assert found.series("goodput_mbps") == pytest.approx([12, 24], rel=1e-3)


@pytest.mark.parametrize("size", [7, 1000])
def test_rates_of_a_log_of_every_packet_are_of_windows(size: int) -> None:
    """A packet of 1,250 bytes each ms is 10 Mbit/s, whatever the times between two of them."""
    times = np.arange(1, 2001, dtype=np.int64) * 10**6 + np.tile([0, 900_000], 1000)
    found = of(
        size,
        t_ns=times,
        flow=pa.array(["a"] * 2000).dictionary_encode(),
        delivered_bytes=np.arange(1, 2001) * 1250,
    )
    rates = found.series("throughput_mbps")
    assert len(rates) == 2000 / 50 + 1
    assert rates[1:-1] == pytest.approx(10, rel=0.05)


LONG = """
import re
from pathlib import Path
import numpy as np
from cwndlab.analysis import recorded
from cwndlab.formats import base
from cwndlab.formats.external_sort import StoredTable

def peak():
    said = Path("/proc/self/status").read_text().replace("\\t", " ")
    return int(re.search("VmHWM: *([0-9]+)", said)[1]) >> 10

def batches():
    for number in range(120):
        place = np.arange(16384) + number * 16384
        columns = dict.fromkeys(("cwnd_bytes", "srtt_ns", "delivered_bytes"), place) | {"t_ns": place * 10**5}
        flow = base.words(place % 3, ["10.0.0.1:40000-10.0.1.1:5001", "b", "c"])
        yield from base.rows("tcp", flow=flow, **columns).to_batches()

table = StoredTable(next(batches()).schema, 120 * 16384, 0, batches)
recorded.of_table(StoredTable(table.schema, 16384, 0, lambda: iter([next(batches())])))
before = peak()
found = recorded.of_table(table)
assert len(found.series("cwnd_mean_bytes")) == 197
print(peak() - before)
"""


@pytest.mark.slow
def test_two_million_rows_take_no_memory_to_speak_of() -> None:
    """Kept whole, six columns of them take 110 MB and as much again while they are put together."""
    command = [sys.executable, "-c", LONG]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) <= 40
