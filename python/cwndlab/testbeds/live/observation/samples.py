"""The samplers' readings of connections, as the tables `tcp` and `tcp_info`, and as the summary needs
them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from cwndlab.testbeds.tables import SCHEMAS

_COLUMNS = {field.name: field.type for table in ("tcp", "tcp_info") for field in SCHEMAS[table]}


def split(
    senders: pa.Table, receivers: pa.Table, headers: Mapping[str, int]
) -> dict[str, list[pa.RecordBatch]]:
    """The senders' rows as the tables that are stored: `tcp` as every testbed has it, `tcp_info` with the
    rest.

    What only the receiving host knows is from its newest row. It counts segments that arrive, not their
    bytes: each has as much payload as the connection's have on average, and its flow's `headers` besides.
    """
    if not senders.num_rows:
        return {}
    tcp = senders.select(SCHEMAS["tcp"].names)
    # Of a guest there is no TCP_INFO.
    more = senders.filter(pc.field("mss_bytes") >= 0).select(SCHEMAS["tcp_info"].names)
    if receivers.num_rows:
        found = _of_receivers(frame(senders), frame(receivers), headers)
        for name in found.columns:
            place = tcp.schema.get_field_index(name)
            tcp = tcp.set_column(place, tcp.schema.field(place), found[name].to_arrow())
    return {"tcp": tcp.to_batches(), "tcp_info": more.to_batches()}


def _of_receivers(senders: pl.DataFrame, receivers: pl.DataFrame, headers: Mapping[str, int]) -> pl.DataFrame:
    """Join to each row of the senders what had arrived, and the receiving host's window and buffer."""
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
    joined = (
        here.sort("t_ns")
        .join_asof(there, on="t_ns", by=ends, strategy="backward", check_sortedness=False)
        .sort("index")
    )
    besides = pl.col("flow").replace_strict(headers, return_dtype=pl.Int64)
    arrived = (pl.col("received_segments") * (pl.col("payload").fill_nan(0) + besides)).round()
    return joined.select(
        arrived.cast(pl.UInt64).alias("arrived_bytes"), "receive_window_bytes", "receive_buffer_bytes"
    )


def frame(rows: pa.Table) -> pl.DataFrame:
    """Rows as a data frame."""
    made = pl.from_arrow(rows)
    assert isinstance(made, pl.DataFrame)  # of a table
    return made


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows in order of time as a table with all columns of `tcp` and `tcp_info`."""
    if not rows:
        return pa.table({})
    rows.sort(key=lambda row: int(row["t_ns"]))
    arrays = {}
    for name, kind in _COLUMNS.items():
        values = [row.get(name) for row in rows]
        is_name = pa.types.is_dictionary(kind)
        arrays[name] = pa.array(values, pa.utf8()).dictionary_encode() if is_name else pa.array(values, kind)
    return pa.table(arrays)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several tables in order of time, in the columns of the first that has any."""
    some = [rows for rows in tables if rows.num_rows]
    if len(some) < 2:
        return some[0] if some else pa.table({})
    names = some[0].column_names
    return pa.concat_tables([rows.select(names).cast(some[0].schema) for rows in some]).sort_by("t_ns")
