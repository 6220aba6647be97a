"""Tables that an earlier version stored with other columns are read with today's."""

import pyarrow as pa

from cwndlab.results import tables


def test_columns_that_an_earlier_version_did_not_know_are_null() -> None:
    names = [name for name in tables.SCHEMAS["tcp"].names if name not in ("arrived_bytes", "rto_ns")]
    old = tables.SCHEMAS["tcp"].empty_table().select(names)
    old = pa.Table.from_pylist([{"run_id": 1, "t_ns": 2, "flow": "f", "cwnd_bytes": 3}], schema=old.schema)
    rows = tables.current("tcp", old)
    assert rows.schema == tables.SCHEMAS["tcp"]
    assert rows["cwnd_bytes"].to_pylist() == [3]
    assert rows["arrived_bytes"].to_pylist() == [None]


def test_columns_that_have_moved_are_left_out() -> None:
    schema = pa.schema([*tables.SCHEMAS["tcp_info"], pa.field("rto_ns", pa.uint64())])
    old = pa.Table.from_pylist([{"run_id": 1, "t_ns": 2, "flow": "f", "rto_ns": 3}], schema=schema)
    assert tables.current("tcp_info", old).schema == tables.SCHEMAS["tcp_info"]
