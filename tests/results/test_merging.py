"""What putting shards together refuses, on made-up results."""

import tracemalloc

import lab
import pytest

from cwndlab.errors import InputError
from cwndlab.parts import store
from cwndlab.parts.sharding import Shard
from cwndlab.results import catalogue, merging, resuming


def shard(directory, number, count=2, versions=None, **changed):
    """One share of the made-up plan, each run a part."""
    cut = Shard(number, count).of(store.cut(lab.plan(), alone=True))
    header = lab.header(shard=f"{number}/{count}", versions=versions or {})
    directory.mkdir()
    resuming.prepare(directory, header, cut, lab.EXPERIMENT, resume=False)
    for part in cut:
        lab.write_part(directory / "runs", part, **changed)
    resuming.conclude(directory, catalogue.build(header, cut, resuming.stored(directory)))
    return directory


def files_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_shards_make_the_whole(tmp_path):
    merged = merging.merge([shard(tmp_path / "b", 2), shard(tmp_path / "a", 1)], tmp_path / "merged")
    assert merged.complete
    cut = store.cut(lab.plan(), alone=True)
    whole = lab.begun(tmp_path / "whole", cut)
    for part in cut:
        lab.write_part(whole / "runs", part)
    table = catalogue.build(lab.header(), cut, resuming.stored(whole))
    resuming.conclude(whole, table)
    assert files_of(merged.path) == files_of(whole) | {".lock": b""}


def test_another_engine_is_refused(tmp_path):
    one = shard(tmp_path / "a", 1, versions={"engine": "sources aa"})
    two = shard(tmp_path / "b", 2, versions={"engine": "sources bb"})
    with pytest.raises(
        InputError, match=r"b: does not belong with .*/a, which was made by engine sources aa"
    ):
        merging.merge([one, two], tmp_path / "merged")


def test_a_shard_twice_has_to_be_the_same(tmp_path):
    pair = [shard(tmp_path / "a", 1), shard(tmp_path / "b", 2)]
    again = shard(tmp_path / "again", 2, started="2026-02-02T00:00:00+00:00", wall_s=7.0)
    assert merging.merge([*pair, again], tmp_path / "merged").complete
    other = shard(tmp_path / "other", 2, rows=7)
    with pytest.raises(InputError, match=r"other: shard 2/2 is in .*/b too, with other bytes"):
        merging.merge([*pair, other], tmp_path / "never")


def test_shards_of_different_counts_are_refused(tmp_path):
    with pytest.raises(InputError, match="of a sweep in 2 shards; this is 1/3"):
        merging.merge([shard(tmp_path / "a", 1), shard(tmp_path / "b", 1, count=3)], tmp_path / "merged")


def test_a_shard_may_say_anything_of_the_others(tmp_path):
    one = shard(tmp_path / "a", 1, count=300_000_000)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"of 300000000 shards 299999999 are missing: 2, 3, .* 13 …$"):
        merging.merge([one], tmp_path / "merged")
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_a_damaged_part_is_refused(tmp_path):
    pair = [shard(tmp_path / "a", 1), shard(tmp_path / "b", 2)]
    (pair[1] / "runs/1-1/tcp.parquet").write_bytes(b"else")
    with pytest.raises(InputError, match=r"1-1/tcp\.parquet: is not as it was written"):
        merging.merge(pair, tmp_path / "merged")


@pytest.mark.parametrize("text", ["", "3", "0/3", "4/3", "1/0", "-1/3", "1/3/4", "a/b", "1 /3"])
def test_what_names_no_shard(text):
    with pytest.raises(InputError, match="expected I/N"):
        Shard.parse(text)
