"""Shards of a sweep: each in its own directory, carried out again without harm, and put together."""

import shutil

import pytest

import cwndlab as api
from command_line import SWEEP, CommandLine

pytestmark = pytest.mark.slow

SHARDS = 3


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory):
    """All shards of SWEEP; not to be written to."""
    command = CommandLine(tmp_path_factory.mktemp("shards"))
    command.file("sweep.yaml", SWEEP)
    for number in range(1, SHARDS + 1):
        ran = command("run", "sweep.yaml", "--shard", f"{number}/{SHARDS}", "-j", "1", "-q")
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    return command.directory / "results"


@pytest.fixture
def shards(carried_out, tmp_path):
    shutil.copytree(carried_out, tmp_path / "results")
    return [f"results/sweep-shard-{number}-of-{SHARDS}" for number in range(1, SHARDS + 1)]


def test_merged_shards_are_the_sweep_carried_out_in_one_go(cwndlab, sweep, results_of, shards):
    ran = cwndlab("data", "merge", *reversed(shards), shards[0], "-o", "merged")
    assert ran.code == 0
    assert "newreno  640" in ran.out
    assert results_of(cwndlab.directory / "merged") == results_of(sweep)
    api.open(cwndlab.directory / "merged").verify()


def test_a_shard_carried_out_again_keeps_what_is_there(cwndlab, shards, results_of):
    cwndlab.file("sweep.yaml", SWEEP)
    before = results_of(cwndlab.directory / shards[1])
    part = next((cwndlab.directory / shards[1] / "runs").iterdir())
    times = part.stat().st_mtime_ns
    assert cwndlab("run", "sweep.yaml", "--shard", f"2/{SHARDS}", "-q").code == 0
    assert results_of(cwndlab.directory / shards[1]) == before
    assert part.stat().st_mtime_ns == times


def test_more_shards_than_parts_leave_some_of_them_empty(cwndlab):
    cwndlab.file("small.yaml")
    for number in (1, 2):
        assert cwndlab("run", "small.yaml", "--shard", f"{number}/2", "-o", str(number)).code == 0
    assert api.open(cwndlab.directory / "2").runs.height == 0
    assert cwndlab("data", "merge", "1", "2", "-o", "merged", "-q").code == 0
    assert api.open(cwndlab.directory / "merged").runs.height == 10


def refused(cwndlab, *arguments):
    ran = cwndlab(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert not (cwndlab.directory / "merged").exists()
    return ran.err.strip()


def test_a_missing_shard_is_named(cwndlab, shards):
    said = refused(cwndlab, "data", "merge", shards[0], shards[2], "-o", "merged")
    assert said == "error: merge: of 3 shards 1 are missing: 2"


def test_a_shard_that_is_not_whole_is_named(cwndlab, shards):
    part = next((cwndlab.directory / shards[1] / "runs").iterdir())
    shutil.rmtree(part)
    said = refused(cwndlab, "data", "merge", *shards, "-o", "merged")
    assert said.startswith(f"error: {shards[1]}/runs/{part.name}: is not there")


def test_what_does_not_belong_is_refused(cwndlab, shards, sweep):
    assert "holds a whole sweep, no shard of one" in refused(
        cwndlab, "data", "merge", sweep, *shards, "-o", "merged"
    )

    cwndlab.file("sweep.yaml", SWEEP.replace("delay: 1ms", "delay: 2ms"))
    other = ("run", "sweep.yaml", "--shard", f"2/{SHARDS}", "-q")
    assert cwndlab(*other, "-o", "other").code == 0
    said = refused(cwndlab, "data", "merge", shards[0], "other", shards[2], "-o", "merged")
    assert said.startswith(f"error: other: does not belong with {shards[0]}: holds another experiment: ")
    assert "delay was '1ms', is '2ms'" in said

    assert cwndlab(*other, "-o", shards[1]).code == 2
    said = refused(cwndlab, "run", "sweep.yaml", "--shard", "4/3", "-o", "merged")
    assert said == "error: --shard: found '4/3'; expected I/N with I from 1 to N, such as 3/10"
