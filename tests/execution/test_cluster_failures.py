"""How often a task of a cluster may fail, and what comes of the others; the cluster itself is made up."""

import socket
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

import stored_results
from cwndlab.errors import CwndlabError
from cwndlab.execution import executor, store, task
from cwndlab.execution.executor import Arrivals
from cwndlab.execution.task import Site

cluster = pytest.importorskip("cwndlab.execution.executors.cluster", reason="Dask is an extra")


class MadeUpFuture:
    def __init__(self, key, outcome):
        self.key = key
        self.outcome = outcome

    def add_done_callback(self, callback):
        callback(self)

    def result(self):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    def release(self):
        pass


class MadeUpClient:
    """Carries a task out at once, unless `broken` says what comes of its first part."""

    status = "running"

    def __init__(self, directory, broken):
        self.directory = directory
        self.broken = broken
        self.asked = []

    def __call__(self, *where, **how):
        return self

    def run(self, *what, **how):
        return {}

    def nthreads(self):
        return {"one": 1}

    def cancel(self, futures, force):
        pass

    def close(self, timeout=None):
        pass

    def submit(self, call, work, site, sent, *, key, pure):
        name = work.parts[0].name
        self.asked.append(name)
        if name in self.broken:
            return MadeUpFuture(key, self.broken[name])
        for part in work.parts:
            stored_results.write_part(self.directory, part)
        made = {
            part.name: {file.name: file.read_bytes() for file in (self.directory / part.name).iterdir()}
            for part in work.parts
        }
        return MadeUpFuture(key, made)


class Counting:
    runs = 0

    def waiting(self, what):
        pass

    def advance(self, runs, work):
        self.runs += runs


@pytest.fixture
def carry_out(tmp_path, monkeypatch):
    def carry_out(broken):
        monkeypatch.setattr(task, "TASK_S", 0)  # each part is a task
        for place in ("there", "runs"):
            (tmp_path / place).mkdir()
        client = MadeUpClient(tmp_path / "there", broken)
        monkeypatch.setattr(cluster, "Client", client)
        arrivals = Arrivals(Site("sim", tmp_path / "runs", {}), Counting())
        parts = store.cut(stored_results.plan(), most=1)
        try:
            executor.carry_out(parts, cluster.Cluster("tcp://made-up", arrivals), arrivals)
        finally:
            arrived = sorted(path.name for path in Path(tmp_path / "runs").iterdir())
            assert arrivals.observer.runs == len(arrived)
        return client.asked

    return carry_out


def arrived(tmp_path):
    return sorted(path.name for path in (tmp_path / "runs").iterdir())


def test_each_part_arrives(carry_out, tmp_path):
    assert carry_out({}) == ["0-0", "1-1", "2-2", "3-3"]
    assert arrived(tmp_path) == ["0-0", "1-1", "2-2", "3-3"]


def test_a_task_that_fails_three_times_is_reported_and_the_rest_goes_on(carry_out, tmp_path):
    with pytest.raises(CwndlabError, match=r"part 1-1: failed 3 times \(No space left"):
        carry_out({"1-1": OSError(28, "No space left on device")})
    assert arrived(tmp_path) == ["0-0", "2-2", "3-3"]


def test_a_scheduler_that_is_gone_ends_the_sweep(carry_out, tmp_path):
    with pytest.raises(CwndlabError, match="the Dask scheduler at tcp://made-up is gone"):
        carry_out({"2-2": CancelledError()})
    assert "3-3" not in arrived(tmp_path)


def test_bytes_that_were_damaged_on_the_way_are_refused(carry_out, tmp_path):
    with pytest.raises(CwndlabError, match="is not as it was written"):
        carry_out({"1-1": {"1-1": {"runs.jsonl": b"else", "SHA256SUMS": b"0" * 64 + b"  runs.jsonl\n"}}})
    assert arrived(tmp_path) == ["0-0"]


def test_a_port_that_stays_silent_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_S", 0.2)
    silent = socket.create_server(("127.0.0.1", 0))
    address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
    with pytest.raises(CwndlabError, match=f"{address} was silent for 0.4 s; is a Dask scheduler there"):
        cluster.Cluster(address, Arrivals(Site("sim", tmp_path, {}), Counting()))


def test_a_scheduler_that_falls_silent_ends_the_sweep(carry_out, monkeypatch):
    monkeypatch.setattr(cluster, "ANSWER_S", 0.2)
    monkeypatch.setattr(MadeUpClient, "nthreads", lambda client: time.sleep(5))
    with pytest.raises(CwndlabError, match=r"tcp://made-up was silent for 0\.2 s"):
        carry_out({})
