"""Results as a log in SIFTR's layout of FreeBSD 14 and 15: a file for each run, as if its senders had logged.

A flow is named by its ends; one whose name holds no addresses gets made-up ones, 10.0.0.N for the sender and
10.0.1.N for the receiver of the N-th flow. What a series does not hold (windows, buffers, RTO) is 0, an
infinite threshold is what FreeBSD has for it. Times are those of the run's beginning, or of 1 January 2000
where that is not known, to the microsecond.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds.logs.connections import INFINITE_BYTES

MILLENNIUM = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp())

FAST_RECOVERY = 0x0010_0000
"""TF_FASTRECOVERY of netinet/tcp_var.h."""

MSS = 1448

_ENDS = re.compile(
    r"\[?(?P<a>[0-9a-fA-F:.]+?)\]?:(?P<ap>\d+)-\[?(?P<b>[0-9a-fA-F:.]+?)\]?:(?P<bp>\d+)(?:#\d+)?"
)


def write(results: ResultSet, run: str, out: Path) -> Iterator[Path]:
    """Write the rows of a run that have a congestion window."""
    frame = results.series(run).filter(pl.col("cwnd_bytes").is_not_null())
    if not frame.height:
        return
    started = int(datetime.fromisoformat(results.record(run).started).timestamp())
    started = started if started > MILLENNIUM else MILLENNIUM
    flows = frame["flow"].cast(pl.String).unique(maintain_order=True).to_list()
    ends = {flow: _ends(flow, number) for number, flow in enumerate(flows, 1)}
    records = _records(frame, ends, started)
    first = "\t".join(
        (
            f"enable_time_secs={started}",
            "enable_time_usecs=000000",
            "siftrver=1.3.0",
            "sysname=FreeBSD",
            "sysver=1500000",
            "ipmode=4",
        )
    )
    last_s = started + int(frame["t_s"][-1]) + 1
    listed = ";".join(",".join(map(str, end)) for end in ends.values())
    last = (
        f"disable_time_secs={last_s}\tdisable_time_usecs=000000\tnum_inbound_tcp_pkts=0\tnum_outbound_tcp_pkts={frame.height}"
        f"\ttotal_tcp_pkts={frame.height}\tflow_list={listed};"
    )
    file = out / f"{re.sub(r'[^A-Za-z0-9-]', '_', run)}.siftr.log"
    file.write_text("\n".join([first, *records, last]) + "\n", encoding="utf-8")
    yield file


def _ends(flow: str, number: int) -> tuple[str, int, str, int]:
    found = _ENDS.fullmatch(flow)
    if found:
        return found["a"], int(found["ap"]), found["b"], int(found["bp"])
    return f"10.0.0.{number % 254 + 1}", 10_000 + number, f"10.0.1.{number % 254 + 1}", 5201


def _records(frame: pl.DataFrame, ends: dict[str, tuple[str, int, str, int]], started: int) -> list[str]:
    texts = {flow: ",".join(map(str, end)) for flow, end in ends.items()}
    microseconds = (frame["t_s"] * 1e6).round(0).cast(pl.Int64)
    state = frame["state"].cast(pl.String)
    numbered = {flow: number for number, flow in enumerate(ends, 1)}
    name = frame["flow"].cast(pl.String)
    rows = pl.DataFrame(
        {
            "s": microseconds // 1_000_000 + started,
            "us": (microseconds % 1_000_000).cast(pl.String).str.zfill(6),
            "ends": name.replace_strict(texts, return_dtype=pl.String),
            "ssthresh": frame["ssthresh_bytes"].fill_null(INFINITE_BYTES).clip(0, INFINITE_BYTES),
            "cwnd": frame["cwnd_bytes"],
            "srtt": (frame["srtt_ms"].fill_null(0) * 1e3).round(0).cast(pl.Int64),
            "flags": state.is_in(["recovery", "loss", "cwr"]).fill_null(False).cast(pl.Int64) * FAST_RECOVERY,
            "inflight": frame["inflight_bytes"].fill_null(0),
            "id": name.replace_strict(numbered, return_dtype=pl.Int64),
        }
    )
    # state 4 is TCPS_ESTABLISHED.
    pattern = f"o,{{}}.{{}},{{}},{{}},{{}},0,0,0,0,0,4,{MSS},{{}},1,{{}},0,0,0,0,0,{{}},0,{{}},0"
    lines = rows.select(
        pl.format(pattern, "s", "us", "ends", "ssthresh", "cwnd", "srtt", "flags", "inflight", "id")
    )
    return [str(line) for line in lines.to_series().to_list()]
