"""Parts: whole or absent, the same bytes however rows arrive, bounded memory, honest about damage."""

import json
import struct
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stored_results
from cwndlab.errors import InputError
from cwndlab.execution import store
from cwndlab.execution.store import PartWriter
from cwndlab.experiment.plan import PlannedRun
from cwndlab.results.parts import Part, RunRecord, StoredPart, TableRecord
from cwndlab.testbeds import tables


def write(runs, batches, name="0-0"):
    with PartWriter(runs, name) as writer:
        files = writer.begin(0)
        for batch in batches:
            files.rows("tcp", batch)
        kept = files.finish()
        writer.record(stored_results.record(stored_results.plan()[0], kept))
        writer.commit()
    return kept


def test_a_part_appears_only_when_it_is_whole(tmp_path):
    with PartWriter(tmp_path, "0-0") as writer:
        files = writer.begin(0)
        files.rows("tcp", stored_results.tcp_rows(0, 0, 10))
        files.capture("a", b"pcap")
        writer.record(
            stored_results.record(stored_results.plan()[0], files.finish(), captures=files.captures)
        )
        assert not (tmp_path / "0-0").exists()
        writer.commit()
    assert sorted(path.name for path in (tmp_path / "0-0").iterdir()) == [
        "0-a.pcap",
        "SHA256SUMS",
        "runs.jsonl",
        "tcp.parquet",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["0-0"]


def test_a_table_ends_at_its_limit(tmp_path):
    with PartWriter(tmp_path, "0-0") as writer:
        files = writer.begin(0, 100 * tables.row_memory("tcp"))
        for start in range(0, 150, 30):
            files.rows("tcp", stored_results.tcp_rows(0, start, 30))
        assert files.finish()["tcp"].rows == 100
    (said,) = files.ended.values()
    assert said.startswith("table tcp ends at 0.0001 s, with its 100 rows at the limit of ")


def test_a_capture_ends_between_two_packets(tmp_path):
    packet = struct.pack("<IIII", 1, 2, 60, 1500) + bytes(60)
    with PartWriter(tmp_path, "0-0") as writer:
        files = writer.begin(0, 24 + 3 * len(packet) + 50)
        for piece in (bytes(24) + packet, packet, 2 * packet, packet):
            files.capture("a", piece)
        writer.record(
            stored_results.record(stored_results.plan()[0], files.finish(), captures=files.captures)
        )
        writer.commit()
    assert (tmp_path / "0-0" / "0-a.pcap").read_bytes() == bytes(24) + 3 * packet
    (said,) = files.ended.values()
    assert said.startswith("the capture at a ends early, at its limit of 302 B")


def test_nothing_stays_of_a_part_that_failed(tmp_path):
    def fail_half_way():
        with PartWriter(tmp_path, "0-0") as writer:
            writer.begin(0).rows("tcp", stored_results.tcp_rows(0, 0, 10))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert list(tmp_path.iterdir()) == []


def test_bytes_do_not_tell_how_rows_arrived(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_PER_GROUP", 1000)
    whole = stored_results.tcp_rows(0, 0, 2500)
    one = write(tmp_path, [whole], "0-0")
    pieces = [whole.slice(start, 7) for start in range(0, 2500, 7)]
    many = write(tmp_path, pieces, "1-1")
    assert one == many
    assert one["tcp"].row_groups == [0, 1, 2]
    assert (tmp_path / "0-0/tcp.parquet").read_bytes() == (tmp_path / "1-1/tcp.parquet").read_bytes()


def test_a_run_that_fits_is_one_row_group_and_reads_back_as_written(tmp_path):
    runs = stored_results.plan()
    stored_results.write_part(tmp_path, Part("0-3", tuple(runs)), rows=300)
    assert pq.ParquetFile(tmp_path / "0-3/tcp.parquet").num_row_groups == len(runs)
    part = StoredPart(tmp_path / "0-3")
    for record in part.records:
        expected = pa.Table.from_batches([stored_results.tcp_rows(record.run_id, 0, 300)])
        assert part.rows("tcp", record).to_pylist() == expected.to_pylist()
    part.verify()


@pytest.mark.slow
def test_memory_stays_bounded_however_long_a_run_is(tmp_path):
    count = 1 << 16
    batch = stored_results.tcp_rows(0, 0, count)
    everything = pa.array(range(count))
    before = pa.total_allocated_bytes()
    held = 0
    with PartWriter(tmp_path, "0-0") as writer:
        files = writer.begin(0)
        for _ in range(40):
            files.rows("tcp", batch.take(everything))
            held = max(held, pa.total_allocated_bytes() - before)
        kept = files.finish()["tcp"]
    assert kept.rows == 40 * count
    assert kept.row_groups == [0, 1, 2]
    assert held < 2 * tables.ROWS_PER_GROUP * 80  # 76 bytes a row; one group held, at most one being written


@pytest.mark.parametrize(
    ("table", "batch", "message"),
    [
        ("tpc", stored_results.tcp_rows(0, 0, 1), "unknown table 'tpc'"),
        ("tcp", stored_results.tcp_rows(0, 0, 1).drop_columns(["state"]), "table tcp has columns"),
        (
            "samples",
            pa.record_batch(
                [pa.array([0]), pa.array([0]), pa.array(["f1"]), pa.array(["goodput"]), pa.array([0.5])],
                names=tables.SCHEMAS["samples"].names,
            ),
            "table samples: ",
        ),
    ],
)
def test_rows_that_are_not_the_tables_are_refused(tmp_path, table, batch, message):
    with PartWriter(tmp_path, "0-0") as writer, pytest.raises(ValueError, match=message):
        writer.begin(0).rows(table, batch)


def test_the_hash_sees_values_nulls_and_names():
    def digest(**changed):
        rows = pa.Table.from_batches([stored_results.tcp_rows(0, 0, 50)])
        for name, column in changed.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        made = tables.RowsHash()
        made.update(rows)
        return made.hexdigest()

    zeros = pa.array([0] * 50, pa.uint64())
    other_order = pa.DictionaryArray.from_arrays(pa.array([1] * 50, pa.int32()), pa.array(["zz", "f1"]))
    assert digest() == digest()
    assert digest() == digest(flow=other_order)  # the same names behind other indices
    assert digest() != digest(flow=pa.array(["f2"] * 50).dictionary_encode())
    assert digest() != digest(pacing_bps=zeros)  # zero is not null
    assert digest(pacing_bps=zeros) != digest(pacing_bps=zeros, retransmits=zeros)


def test_records_read_back_as_written():
    record = stored_results.record(
        stored_results.plan()[0], {"tcp": TableRecord(5, [0], "00")}, warnings=["umlaut: ä"]
    )
    assert RunRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "{}", '{"tables": {}}', '{"tables": {"tcp": {"rows": 1}}}', "null", "5"]
)
def test_a_line_that_is_no_record_is_refused(line):
    with pytest.raises(ValueError):
        RunRecord.from_json(line)


def test_a_capture_cannot_name_another_directory():
    values = json.loads(stored_results.record(stored_results.plan()[0], {}).to_json())
    values["captures"] = ["../../secrets.pcap"]
    with pytest.raises(ValueError, match="no name of a file beside it"):
        RunRecord.from_json(json.dumps(values))


def planned(count, seconds, rate_bps=10_000_000):
    runs = []
    for index in range(count):
        scenario = stored_results.scenario(duration_ns=seconds * 10**9)
        scenario["links"][0]["rate_bps"] = rate_bps
        runs.append(PlannedRun(index, 0, {}, scenario, "0" * 16))
    return runs


def test_long_runs_are_parts_of_their_own_and_short_ones_share():
    assert [part.name for part in store.cut(planned(2, 300, 10**9))] == ["0-0", "1-1"]
    short = store.cut(planned(600, 1))
    assert [part.name for part in short] == ["000-255", "256-511", "512-599"]
    assert [run.index for part in short for run in part.runs] == list(range(600))


@pytest.mark.parametrize("damage", ["removed", "cut", "garbage", "other rows"])
def test_damage_is_named_in_one_line(tmp_path, damage):
    write(tmp_path, [stored_results.tcp_rows(0, 0, 100)])
    file = tmp_path / "0-0/tcp.parquet"
    if damage == "removed":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "garbage":
        file.write_bytes(b"nothing of the kind")
    else:
        write(tmp_path, [stored_results.tcp_rows(0, 500, 100)], "1-1")
        (tmp_path / "1-1/tcp.parquet").rename(file)
    with pytest.raises(InputError) as refused:
        StoredPart(tmp_path / "0-0").verify()
    assert "tcp.parquet: " in str(refused.value)
    assert "the results are damaged" in str(refused.value)


def test_a_worker_does_without_the_schema_of_the_file() -> None:
    """It takes longer to load than all else of a worker."""
    loads = "import cwndlab.execution.executors.processes, cwndlab.testbeds.sim.testbed, sys"
    said = subprocess.check_output(
        [sys.executable, "-c", f"{loads}; print('cwndlab.experiment.schema' in sys.modules)"], text=True
    )
    assert said == "False\n"
