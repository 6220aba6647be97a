"""TCP_INFO of a run's sockets at an interval: the `tcp` and `tcp_info` tables, and what the summary is made
from."""

import json
from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from cwndlab import _native
from cwndlab.scenario.queries import is_datagrams
from cwndlab.tables import SCHEMAS
from cwndlab.testbeds.netns.layout import Ends

DEFAULT_NS = 10_000_000
"""Interval where the experiment records no series: the summary needs some."""


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
        flows = [flow for flow in scenario["flows"] if not is_datagrams(flow)]
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


def split(senders: pa.Table, receivers: pa.Table, headers: int) -> dict[str, list[pa.RecordBatch]]:
    """The senders' rows as the tables that are stored: `tcp` as every testbed has it, `tcp_info` with the
    rest.

    What only the receiving host knows is from its newest row. It counts segments that arrive, not their
    bytes: each has as much payload as the connection's have on average, and `headers` bytes besides.
    """
    if not senders.num_rows:
        return {}
    tcp, more = (senders.select(SCHEMAS[table].names) for table in ("tcp", "tcp_info"))
    if receivers.num_rows:
        found = _of_receivers(frame(senders), frame(receivers), headers)
        for name in found.columns:
            place = tcp.schema.get_field_index(name)
            tcp = tcp.set_column(place, tcp.schema.field(place), found[name].to_arrow())
    return {"tcp": tcp.to_batches(), "tcp_info": more.to_batches()}


def _of_receivers(senders: pl.DataFrame, receivers: pl.DataFrame, headers: int) -> pl.DataFrame:
    """For each row of the senders: what had arrived, and the receiving host's window and buffer."""
    ends = ["flow", "local_port", "remote_port"]
    flow = pl.col("flow").cast(pl.String)
    there = receivers.select(
        "t_ns",
        flow,
        pl.col("remote_port").alias("local_port"),
        pl.col("local_port").alias("remote_port"),
        "received_segments",
        "receive_window_bytes",
        "receive_buffer_bytes",
    ).sort("t_ns")
    payload = (pl.col("sent_bytes").last() / pl.col("sent_segments").last()).over(ends)
    here = senders.select("t_ns", flow, "local_port", "remote_port", payload=payload).with_row_index()
    joined = here.sort("t_ns").join_asof(there, on="t_ns", by=ends, strategy="backward").sort("index")
    arrived = (pl.col("received_segments") * (pl.col("payload").fill_nan(0) + headers)).round()
    return joined.select(
        arrived.cast(pl.UInt64).alias("arrived_bytes"), "receive_window_bytes", "receive_buffer_bytes"
    )


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
