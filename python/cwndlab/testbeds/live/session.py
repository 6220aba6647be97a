"""The course of a run in real time: set up, ping, start together, wait, collect, summary, warnings."""

import errno
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pyarrow as pa

from cwndlab.errors import CwndlabError, RunError
from cwndlab.experiment.scenario import rate_check
from cwndlab.experiment.scenario.queries import base_rtt_ns
from cwndlab.testbeds.base import CancelledError, Control, Outcome, RunWriter
from cwndlab.testbeds.live import guests
from cwndlab.testbeds.live.lab import Lab, Sampler, Traffic
from cwndlab.testbeds.live.observation import host_state, samples
from cwndlab.testbeds.live.observation.host_state import Change
from cwndlab.testbeds.live.observation.snapshot import FILE, Snapshot
from cwndlab.testbeds.live.path.backend import PathBackend, PathReport
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.summary import collection, summary
from cwndlab.testbeds.live.summary.summary import LoadSession, Observed
from cwndlab.testbeds.live.traffic import agents, clock, load, tools

PINGS, PING_NS = 5, 20_000_000
"""Echoes of the idle ping to each destination, and the time between two."""
SETTLE_S = 0.2
"""Time after the end for packets on their way and for reports."""
SET_UP_S = 600.0
"""Time besides the run's, for setting up and collecting, after which what was started is killed."""

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
"""Errors of writing results, which are no property of the run."""

Answers = Mapping[str, Mapping[str, Any]]
"""Answers of agents about a run, by host."""


def carry_out(
    run_id: int,
    scenario: LiveScenario,
    lab: Lab,
    *,
    writer: RunWriter,
    control: Control,
) -> Outcome:
    """Carry out one run on a lab's machines, and let these go; raises as `Testbed.run`."""
    with _ending(lab.close), ExitStack() as held:
        lab.lock()
        try:
            return _Run(run_id, scenario, lab, control).carry_out(held, writer)
        except OSError as error:
            if error.errno in DISK:
                raise
            # Of sockets, interfaces and tools: this run failed, and the next may not.
            raise RunError(str(error)) from None


def _give_up(path: PathBackend) -> None:
    """Stop the path of a run that has failed, whose cause is told alone."""
    with suppress(CwndlabError, OSError):
        path.stop()


@contextmanager
def _ending(end: Callable[[], object]) -> Iterator[None]:
    """End something whatever happens; of a run that failed, the cause is told before what ending it said."""
    try:
        yield
    except (CwndlabError, OSError) as error:
        try:
            end()
        except (CwndlabError, OSError) as later:
            if isinstance(error, OSError) and error.errno in DISK:
                raise error from None
            raise RunError(f"{error}; afterwards {later}") from None
        raise
    except BaseException:
        end()
        raise
    end()


def set_up(scenario: LiveScenario, lab: Lab) -> None:
    """Make the machines of a lab that is locked, set them to what the Scenario says, and connect them."""
    lab.make()
    hosts = [(host, lab.hosts[host["name"]]) for host in scenario["hosts"]]
    for host, live in hosts:
        live.system.load(live.reach, host, scenario["flows"])
        live.system.configure(live.reach, live.system.sysctls(host, scenario["flows"]))
    lab.connect()
    for host, live in hosts:
        for interface in lab.interfaces(host["name"]):
            live.system.set_interface(live.reach, interface, host["nic"])
        live.system.set_rules(live.reach, host, lab.addresses)


class _Run:
    """One run while it is carried out."""

    def __init__(self, run_id: int, scenario: LiveScenario, lab: Lab, control: Control) -> None:
        self._run_id, self._scenario, self._lab, self._control = run_id, scenario, lab, control
        self._starts = clock.start_times(scenario)
        self._end_ns: int = scenario["duration_ns"]

    def carry_out(self, held: ExitStack, writer: RunWriter) -> Outcome:
        set_up(self._scenario, self._lab)
        # Everything that has to be started is started before the path is: a fork would hold that up.
        limit_s = self._end_ns / 1e9 + self._patience_s() + SET_UP_S
        started = held.enter_context(self._lab.traffic(limit_s, self._look))
        path = self._lab.path(self._scenario)
        path.start()
        stopping = held.enter_context(ExitStack())
        stopping.callback(_give_up, path)
        sampler = self._lab.sampler()
        # While the agents begin; nothing is on the path yet.
        snapshot = self._snapshot()
        idle = self._ping(started)
        started.ask(self._orders())
        logs = self._start_logs(limit_s)
        sampler.start()
        zero = self._begin(started, path, sampler)
        self._wait(zero)
        rows = sampler.stop()
        answers = started.ask({host: {"do": "end"} for host in self._lab.hosts}, takes_s=self._patience_s())
        logged = {name: end() for name, end in logs.items()}
        settled = time.monotonic() + SETTLE_S
        changed = snapshot.changes()
        time.sleep(max(0.0, settled - time.monotonic()))
        stopping.pop_all()
        observed, rows = self._observed(zero, rows, answers, path.stop())
        if sampler.at_acks is not None:
            rows = (collection.until(sampler.at_acks, self._end_ns), rows[1])
        collection.write(writer, self._run_id, observed, rows, answers)
        for name, text in logged.items():
            writer.attach(f"{name}.txt", text)
        writer.attach(FILE, snapshot.document(changed))
        counted = summary.summary(observed)
        return Outcome(
            summary=counted,
            facts={**self._facts(observed, idle), "machine": snapshot.facts},
            warnings=[
                *self._warnings(observed, sampler, idle, changed),
                *rate_check.warnings(observed.scenario, counted),
            ],
        )

    def _start_logs(self, limit_s: float) -> dict[str, Callable[[], bytes]]:
        """Start the lab file's loggers; returns what ends each."""
        return {
            f"{name}-{host}": self._lab.log(host, log["command"], limit_s)
            for name, log in self._scenario["live"].get("programs", {}).items()
            for host in log["hosts"]
            if host in self._lab.hosts
        }

    def _snapshot(self) -> Snapshot:
        """Read all settings; a schedule changes the queue disciplines of a path of the kernel's."""
        by_kernel = self._scenario["live"]["emulator"] != "own" and bool(self._scenario["schedule"])
        return Snapshot(self._lab.places, self._lab.machines, own_changes=by_kernel)

    def _patience_s(self) -> float:
        """Time that ends may take to end, in s."""
        tools_used = {flow["tool"] for flow in self._scenario["live"]["flows"].values()}
        return load.AFTER_S if tools.LOAD_TOOL in tools_used else 0.0

    def _ping(self, started: Traffic) -> dict[str, list[int]]:
        """Round trips between the ends of each flow while nothing else goes on, ns, by `FROM>TO`."""
        if "ping" not in self._scenario["live"]["loggers"]:
            return {}
        pairs: dict[str, list[str]] = {}
        for ends in self._lab.addresses.flows.values():
            targets = pairs.setdefault(ends.from_, [])
            if ends.to not in targets:
                targets.append(ends.to)
        order = {"do": "ping", "count": PINGS, "interval_ns": PING_NS}
        addresses = self._lab.addresses.hosts
        orders = {host: {**order, "to": [addresses[to] for to in targets]} for host, targets in pairs.items()}
        answers = started.ask(orders, takes_s=2.0 * max(map(len, pairs.values())))
        return {
            f"{host}>{to}": answers[host]["ping"][addresses[to]]
            for host, targets in pairs.items()
            for to in targets
        }

    def _orders(self) -> dict[str, dict[str, Any]]:
        flows = self._lab.addresses.flows
        base = {
            flow["name"]: base_rtt_ns(self._scenario, flow["from"], flow["to"])
            for flow in self._scenario["flows"]
        }
        tasks = agents.tasks(self._scenario, flows, self._starts, base)
        measure = self._scenario["measure"]
        return {
            host: {
                "do": "prepare",
                "measure": [measure["from_ns"], measure["to_ns"]],
                "duration_ns": self._end_ns,
                "sends": [task for task in tasks if flows[task["flow"]].from_ == host],
                "receives": [task for task in tasks if flows[task["flow"]].to == host],
            }
            for host in self._lab.hosts
        }

    def _begin(self, started: Traffic, path: PathBackend, sampler: Sampler) -> int:
        """Tell everybody when t = 0 is, each by its own clock, and return it by this process's clock."""
        offsets = {host: self._lab.clock_offset(host) for host in self._lab.hosts}
        zero = clock.choose_zero(self._scenario, self._starts, self._lab.lead_ns)
        path.mark_start(zero)
        sampler.mark_start(zero)
        started.ask({host: {"do": "start", "zero_ns": zero + offset} for host, offset in offsets.items()})
        return zero

    def _wait(self, zero: int) -> None:
        clock.wait(zero, self._end_ns, self._look, self._control.progress)

    def _look(self) -> None:
        if self._control.cancelled():
            raise CancelledError
        self._lab.watch()

    def _observed(
        self, zero: int, rows: tuple[pa.Table, pa.Table], answers: Answers, carried: PathReport
    ) -> tuple[Observed, tuple[pa.Table, pa.Table]]:
        """Collect all that was seen, and the rows of samplers and guests up to the end."""
        reports = {
            (flow["flow"], flow["role"]): flow for answer in answers.values() for flow in answer["flows"]
        }
        of_guests = guests.rows(self._run_id, self._lab.addresses.flows, reports)
        every = samples.together([rows[0], of_guests]), rows[1]
        senders, receivers = (collection.until(table, self._end_ns) for table in every)
        observed = Observed(
            scenario=self._scenario,
            senders=samples.frame(senders),
            receivers=samples.frame(receivers),
            carried=carried,
            reports=reports,
            starts=self._starts,
            zero_ns=zero,
            sessions=_sessions(answers),
            clock_errors_ns=self._lab.clock_errors(),
        )
        return observed, (senders, receivers)

    def _facts(self, observed: Observed, idle: Mapping[str, list[int]]) -> dict[str, Any]:
        flows, hosts = self._scenario["flows"], self._lab.hosts
        return {
            "emulator": self._scenario["live"]["emulator"],
            "path": observed.carried.health,
            "idle_ping_ns": dict(idle),
            "start_skew_ns": summary.opening_skew_ns(observed),
            "sysctls": {
                host["name"]: hosts[host["name"]].system.sysctls(host, flows)
                for host in self._scenario["hosts"]
            },
            **self._lab.facts(),
        }

    def _warnings(
        self, observed: Observed, sampler: Sampler, idle: Mapping[str, list[int]], changed: list[Change]
    ) -> list[str]:
        found = []
        if observed.carried.unreliable:
            found.append(f"unreliable: {observed.carried.unreliable}")
        found += self._lab.warnings(idle)
        found += [f"TCP_INFO: {trouble}" for trouble in dict.fromkeys(sampler.troubles)]
        found += [f"idle ping {pair}: no reply" for pair, trips in idle.items() if not trips]
        for (flow, role), report in observed.reports.items():
            if report["error"]:
                found.append(f"flow {flow}, {'sender' if role == 'from' else 'receiver'}: {report['error']}")
        found += [
            f"flow {flow}: {session.error}" for flow, session in observed.sessions.items() if session.error
        ]
        return [*found, *host_state.warnings(changed, f"{self._run_id}-{FILE}")]


def _sessions(answers: Answers) -> dict[str, LoadSession]:
    """Find the loadlatency tool's reports, by name of the pinger."""
    reports = [report for answer in answers.values() for report in answer["reports"]]
    return {
        report["flow"]: LoadSession(json.loads(report["text"]) if report["text"] else None, report["error"])
        for report in reports
        if report["tool"] == tools.LOAD_TOOL and report["role"] == "from"
    }
