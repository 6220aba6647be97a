"""TCP_INFO of a run's sockets at an interval: the `tcp` and `tcp_info` tables, and what the summary is made
from."""

import json
from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from cwndlab import _native
from cwndlab.results.tables import SCHEMAS
from cwndlab.testbeds.netns.layout import Ends

DEFAULT_NS = 10_000_000
"""Interval where the experiment records no series: the summary needs some."""

STREAMS = frozenset({"udp-cbr", "voip", "ping"})
"""Apps without a connection."""


class TcpInfoLogger:
    """Both ends of every connection of a run."""

    def __init__(
        self,
        run_id: int,
        scenario: Mapping[str, Any],
        ends: Mapping[str, Ends],
        namespaces: Mapping[str, str],
    ) -> None:
        """Prepare; nothing runs yet."""
        recorded = scenario["record"]["tcp"]
        interval = recorded["interval_ns"] if recorded["kind"] == "interval" else DEFAULT_NS
        flows = [flow for flow in scenario["flows"] if flow["app"]["kind"] not in STREAMS]
        self._samplers = [
            _native.TcpSampler(
                json.dumps(
                    {
                        "run_id": run_id,
                        "interval_ns": interval,
                        "flows": [flow["name"] for flow in flows],
                        "sockets": [_socket(flow, ends[flow["name"]], namespaces, role) for flow in flows],
                        "recoveries": role == "from",
                    }
                )
            )
            for role in ("from", "to")
        ]
        self.troubles: list[str] = []
        """What went wrong while sampling, known after `stop`."""

    def start(self) -> None:
        """Start sampling."""
        for sampler in self._samplers:
            sampler.start()

    def mark_start(self, zero_ns: int) -> None:
        """The run begins at this CLOCK_MONOTONIC time."""
        for sampler in self._samplers:
            sampler.mark_start(zero_ns)

    def stop(self) -> tuple[pa.Table, pa.Table]:
        """End it: rows of the senders, and of the receivers."""
        tables = []
        for sampler in self._samplers:
            batches, report = sampler.stop()
            self.troubles += json.loads(report)["errors"]
            rows = [pa.record_batch(batch) for _, batch in batches]
            tables.append(pa.Table.from_batches(rows) if rows else pa.table({}))
        return tables[0], tables[1]


def split(rows: pa.Table) -> dict[str, list[pa.RecordBatch]]:
    """The senders' rows as the tables that are stored: `tcp` as every testbed has it, `tcp_info` with the
    rest."""
    if not rows.num_rows:
        return {}
    return {table: rows.select(SCHEMAS[table].names).to_batches() for table in ("tcp", "tcp_info")}


def frame(rows: pa.Table) -> pl.DataFrame:
    """Rows as a data frame."""
    made = pl.from_arrow(rows)
    assert isinstance(made, pl.DataFrame)  # of a table
    return made


def _socket(flow: Mapping[str, Any], ends: Ends, namespaces: Mapping[str, str], role: str) -> dict[str, Any]:
    many = flow["app"]["kind"] == "background"
    source, target = None if many else ends.source_port, ends.target_port
    at_sender = role == "from"
    return {
        "flow": ends.flow,
        "netns": namespaces[ends.from_ if at_sender else ends.to],
        "local_port": source if at_sender else target,
        "remote_port": target if at_sender else source,
    }
