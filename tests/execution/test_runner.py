"""What happens to a sweep when a run fails, the disk does, or its directory is taken."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import stored_results
from cwndlab import testbeds
from cwndlab.errors import CwndlabError, InputError, StoppedError
from cwndlab.execution import estimate, runner
from cwndlab.execution.run_order import SET_UP_NS, Order
from cwndlab.execution.task import PartControl, Site
from cwndlab.experiment.plan import Plan, PlannedRun
from cwndlab.experiment.scenario import planner
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds.base import CancelledError, Outcome


class MadeUpExperiment:
    support = SimpleNamespace(modules=())
    spec = SimpleNamespace(flows=[], metrics={}, expect={}, answers=None)
    axes = ()

    def as_yaml(self):
        return stored_results.EXPERIMENT


class MadeUpTestbed:
    """Writes made-up rows; `broken` maps a run to what goes wrong in it."""

    name = "sim"

    def ready(self):
        """Needs nothing."""

    def __init__(self, broken=None, refused=None, version="1"):
        self.broken = broken or {}
        self.refused = refused
        self.version = version
        self.carried_out = []

    def versions(self):
        return {"engine": self.version}

    def preflight(self, scenario, cell):
        refused = self.refused or []
        return [why for cc, why in refused if cc is None or cc == scenario["flows"][0]["cc"]]

    def run(self, run_id, scenario, writer, control):
        self.carried_out.append(run_id)
        writer.rows("tcp", stored_results.tcp_rows(run_id, 0, 20))
        control.progress(scenario["duration_ns"] // 2)
        if control.cancelled():
            raise CancelledError
        if run_id in self.broken:
            raise self.broken[run_id]
        return Outcome({"flows": [stored_results.flow_counters()]}, warnings=["look twice"])


class Counting:
    def __init__(self):
        self.ahead = self.done = (0, 0)

    def planning(self, planned, runs):
        assert planned <= runs

    def start(self, runs, work):
        self.ahead = (runs, work)

    def waiting(self, what):
        pass

    def advance(self, runs, work):
        assert runs >= 0
        assert work >= 0
        self.done = (self.done[0] + runs, self.done[1] + work)


@pytest.fixture
def run_with(tmp_path, monkeypatch):
    def run(bed, **options):
        plan = Plan("made-up", ("hosts.a.cc",), 2, stored_results.plan())
        monkeypatch.setattr(planner, "make", lambda experiment, told: plan)
        monkeypatch.setattr(testbeds, "find", lambda name, lab=None, modules=(): bed)
        monkeypatch.setattr(estimate, "check_room", lambda runs, directory, here: None)
        return runner.run(MadeUpExperiment(), out=tmp_path / "out", **options)

    return run


def test_progress_adds_up_to_what_was_ahead(run_with):
    observer = Counting()
    assert run_with(MadeUpTestbed(), observer=observer).complete
    assert observer.done == observer.ahead
    assert observer.ahead[0] == 4


def test_where_runs_take_real_time_progress_is_that_time():
    def told(rate_bps: int) -> tuple[list[int], int]:
        scenario = stored_results.scenario()
        scenario["links"][0]["rate_bps"] = rate_bps
        planned = PlannedRun(0, 0, {}, scenario, "")
        advances = []
        site = Site("netns", Path(), {}, Order({0: 0}, pause_ns=2 * 10**9))
        control = PartControl(lambda: False, lambda _, work: advances.append(work), site.work)
        for now_s in (0, 4, 10):
            control.of_run(planned).progress(now_s * 10**9)
        control.finished(planned)
        return advances, sum(site.work(scenario))

    advances, ahead = told(2_000_000)
    assert advances == [2_000_000 + SET_UP_NS // 1000, 4_000_000, 6_000_000, 0]
    assert sum(advances) == ahead
    assert told(100_000_000) == (advances, ahead)


def test_a_run_that_fails_does_not_stop_the_others_and_is_done_again_on_resuming(run_with):
    results = run_with(MadeUpTestbed({1: RuntimeError("no\nroute")}))
    assert not results.complete
    assert results.summary["status"].to_list() == ["complete", "failed", "complete", "complete"]
    assert results.summary["goodput_mbps"].null_count() == 1
    assert results.record(1).error == "a fault of cwndlab: RuntimeError: no route"
    assert results.record(0).warnings == ["look twice"]

    healthy = MadeUpTestbed()
    resumed = run_with(healthy, resume=True)
    assert resumed.complete
    assert healthy.carried_out == [0, 1, 2, 3]  # the part is the unit
    idle = MadeUpTestbed()
    assert run_with(idle, resume=True).complete
    assert idle.carried_out == []


def test_a_full_disk_ends_the_sweep_and_leaves_no_half_part(run_with, tmp_path):
    with pytest.raises(CwndlabError, match="out/runs: No space left on device"):
        run_with(MadeUpTestbed({2: OSError(28, "No space left on device")}))
    assert list((tmp_path / "out/runs").iterdir()) == []
    assert ResultSet(tmp_path / "out").summary["status"].to_list() == ["missing"] * 4


def test_an_interruption_keeps_the_plan_and_no_half_part(run_with, tmp_path):
    with pytest.raises(StoppedError, match="interrupted; 0 of 4 runs are kept"):
        run_with(MadeUpTestbed({2: KeyboardInterrupt()}))
    assert list((tmp_path / "out/runs").iterdir()) == []
    assert run_with(MadeUpTestbed(), resume=True).complete


def test_a_scenario_the_testbed_refuses_is_refused_before_anything_is_written(run_with, tmp_path):
    refused = [(None, "too many links"), ("cubic", "no cubic"), ("cubic", "no room")]
    with pytest.raises(InputError) as said:
        run_with(MadeUpTestbed(refused=refused))
    # All at once, each with the first cell that asks for it.
    first = "testbed sim refuses run 0, hosts.a.cc=newreno: too many links"
    assert str(said.value) == f"{first}; and run 2, hosts.a.cc=cubic: no cubic; no room"
    assert not (tmp_path / "out").exists()


def test_results_of_another_engine_are_not_mixed_in(run_with):
    with suppress(StoppedError):
        run_with(MadeUpTestbed({0: KeyboardInterrupt()}))
    with pytest.raises(InputError, match="out: was begun with engine 1, and this is 2; "):
        run_with(MadeUpTestbed(version="2"), resume=True)


FIRST_WORKER = """
import os, signal
from types import SimpleNamespace
from cwndlab.execution.executors.processes import Processes
from cwndlab.execution.signals import uninterrupted
from cwndlab.results.parts import Part
from cwndlab.execution.task import Site, Task
from pathlib import Path

executor = Processes(1, SimpleNamespace(site=Site("sim", Path("."), {})))
try:
    with uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        executor._start(Task((Part("0-0", ()),)))
        print("started")
except KeyboardInterrupt:
    print("interrupted")
    executor.cancel()
"""


@pytest.mark.slow
def test_ctrl_c_waits_while_the_first_worker_starts(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_WORKER], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("started\ninterrupted\n", "", 0)
