"""What putting shards together refuses, on made-up results."""

import tracemalloc

import pytest

import stored_results
from cwndlab.errors import InputError
from cwndlab.execution import merge, resumption, store
from cwndlab.execution.shards import Shard
from cwndlab.results import catalogue


def shard(directory, number, count=2, versions=None, **changed):
    """One share of the made-up plan, each run a part."""
    cut = Shard(number, count).of(store.cut(stored_results.plan(), most=1))
    header = stored_results.header(shard=f"{number}/{count}", versions=versions or {})
    directory.mkdir()
    resumption.prepare(directory, header, cut, stored_results.EXPERIMENT, resume=False)
    for part in cut:
        stored_results.write_part(directory / "runs", part, **changed)
    resumption.conclude(directory, catalogue.build(header, cut, resumption.stored(directory)))
    return directory


def files_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_shards_make_the_whole(tmp_path):
    merged = merge.merge([shard(tmp_path / "b", 2), shard(tmp_path / "a", 1)], tmp_path / "merged")
    assert merged.complete
    cut = store.cut(stored_results.plan(), most=1)
    whole = stored_results.begun(tmp_path / "whole", cut)
    for part in cut:
        stored_results.write_part(whole / "runs", part)
    table = catalogue.build(stored_results.header(), cut, resumption.stored(whole))
    resumption.conclude(whole, table)
    assert files_of(merged.path) == files_of(whole) | {".lock": b""}


def test_another_engine_is_refused(tmp_path):
    one = shard(tmp_path / "a", 1, versions={"engine": "sources aa"})
    two = shard(tmp_path / "b", 2, versions={"engine": "sources bb"})
    with pytest.raises(
        InputError, match=r"b: does not belong with .*/a, which was made by engine sources aa"
    ):
        merge.merge([one, two], tmp_path / "merged")


def test_a_shard_twice_has_to_be_the_same(tmp_path):
    pair = [shard(tmp_path / "a", 1), shard(tmp_path / "b", 2)]
    again = shard(tmp_path / "again", 2, started="2026-02-02T00:00:00+00:00", wall_s=7.0)
    assert merge.merge([*pair, again], tmp_path / "merged").complete
    other = shard(tmp_path / "other", 2, rows=7)
    with pytest.raises(InputError, match=r"other: shard 2/2 is in .*/b too, with other bytes"):
        merge.merge([*pair, other], tmp_path / "never")


def test_shards_of_different_counts_are_refused(tmp_path):
    with pytest.raises(InputError, match="of a sweep in 2 shards; this is 1/3"):
        merge.merge([shard(tmp_path / "a", 1), shard(tmp_path / "b", 1, count=3)], tmp_path / "merged")


def test_a_shard_may_say_anything_of_the_others(tmp_path):
    one = shard(tmp_path / "a", 1, count=300_000_000)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"of 300000000 shards 299999999 are missing: 2, 3, .* 13 …$"):
        merge.merge([one], tmp_path / "merged")
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_what_a_directory_calls_its_shard_is_named_with_the_file(tmp_path):
    one = shard(tmp_path / "a", 1)
    cut = Shard(1, 2).of(store.cut(stored_results.plan(), most=1))
    header = stored_results.header(shard="1e9/1e9", versions={})
    resumption.conclude(one, catalogue.build(header, cut, resumption.stored(one)))
    with pytest.raises(InputError, match=r"a/catalogue\.parquet: shard: found '1e9/1e9'; expected I/N"):
        merge.merge([one], tmp_path / "merged")


def test_a_damaged_part_is_refused(tmp_path):
    pair = [shard(tmp_path / "a", 1), shard(tmp_path / "b", 2)]
    (pair[1] / "runs/1-1/tcp.parquet").write_bytes(b"else")
    with pytest.raises(InputError, match=r"1-1/tcp\.parquet: is not as it was written"):
        merge.merge(pair, tmp_path / "merged")


@pytest.mark.parametrize("text", ["", "3", "0/3", "4/3", "1/0", "-1/3", "1/3/4", "a/b", "1 /3"])
def test_what_names_no_shard(text):
    with pytest.raises(InputError, match="expected I/N"):
        Shard.parse(text)
