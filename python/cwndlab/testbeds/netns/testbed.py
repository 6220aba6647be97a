"""The testbed `netns`: this machine's own kernel, a network namespace for every host, switch and router."""

import errno
import json
import os
import platform
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cwndlab import _native
from cwndlab.errors import InputError
from cwndlab.testbeds.base import CancelledError, Control, Outcome, RunWriter
from cwndlab.testbeds.live import agents, host_state, summary, tcp_info
from cwndlab.testbeds.live.agents import Agents
from cwndlab.testbeds.live.summary import Observed, Session
from cwndlab.testbeds.live.tcp_info import TcpInfoLogger
from cwndlab.testbeds.live.traffic import load, tools
from cwndlab.testbeds.netns import machine, namespaces, network, preflight, reaper
from cwndlab.testbeds.netns.carrier import Carrier, OwnEmulator, engine_scenario
from cwndlab.testbeds.netns.kernel_path import KernelPath
from cwndlab.testbeds.netns.layout import lay_out
from cwndlab.testbeds.netns.network import Network
from cwndlab.testbeds.netns.state import FILE, State
from cwndlab.testbeds.netns.support import SUPPORT

LEAD_NS = 100_000_000
"""Time between telling everybody when the run begins, and that time."""
PINGS, PING_NS = 5, 20_000_000
"""Echoes of the idle ping to each destination, and the time between two."""
SETTLE_S = 0.2
"""Time after the end for packets on their way and for reports."""
STEP_S = 0.03
"""Between two looks at whether the run is cancelled."""


DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
"""Errors of writing results, which are no property of the run."""


class Netns:
    """This host's real TCP over an emulated path, in real time."""

    name = "netns"
    real_time = True
    support = SUPPORT

    def ready(self) -> None:
        """Raises InputError where namespaces cannot be made."""
        reason = machine.trouble()
        if reason is not None:
            raise InputError(reason)

    def remarks(self) -> list[str]:
        """What a crash left."""
        left = sum(len(names) for names in namespaces.left_behind().values())
        return [f"a crash left {left} namespaces: cwndlab doctor --clean removes them"] if left else []

    def clean(self) -> list[str]:
        """Remove the namespaces of runs whose process is gone."""
        left = namespaces.left_behind()
        if left and os.geteuid() != 0:
            raise InputError(f"{len(left)} crashed runs left something, which only root can remove; try sudo")
        return [name for run in left for name in namespaces.clean(run)]

    def versions(self) -> dict[str, str]:
        """The kernel, and the engine whose path carries the packets."""
        return {"engine": _native.version(), "kernel": platform.release()}

    def preflight(self, scenario: Mapping[str, Any]) -> None:
        """Raises ValueError, with one line, for what this kernel or a tool cannot do."""
        preflight.check(scenario)

    def run(self, run_id: int, scenario: Mapping[str, Any], writer: RunWriter, control: Control) -> Outcome:
        """Carry out one run in real time."""
        with ExitStack() as held:
            owner = namespaces.Owner()
            held.callback(owner.close)
            watcher = reaper.start(owner.name)
            held.callback(reaper.release, watcher)
            held.callback(owner.close)  # while the reaper still watches
            try:
                return _Run(run_id, scenario, control, owner.directory).carry_out(owner, held, writer)
            except OSError as error:
                if error.errno in DISK:
                    raise
                # Of sockets, interfaces and tools: this run failed, and the next may not.
                raise RuntimeError(str(error)) from None


class _Run:
    """One run while it is carried out."""

    def __init__(self, run_id: int, scenario: Mapping[str, Any], control: Control, directory: Path) -> None:
        self._run_id, self._scenario, self._control = run_id, scenario, control
        self._directory = directory
        self._layout = lay_out(scenario)
        self._starts = start_times(scenario)
        self._wanted = set(scenario["live"]["loggers"])

    def carry_out(self, owner: namespaces.Owner, held: ExitStack, writer: RunWriter) -> Outcome:
        own = self._scenario["live"]["emulator"] == "own"
        built = network.build(owner, self._layout, self._scenario, own_emulator=own)
        at_hosts = {host: built.namespaces[host] for host in self._layout.hosts}
        agents = held.enter_context(Agents(at_hosts, self._look))
        carrier = self._carrier(built)
        carrier.start()
        logger = TcpInfoLogger(self._run_id, self._scenario, self._layout.flows, at_hosts)
        stopped = False
        try:
            # While the agents begin; nothing is on the path yet.
            state = State(built, own_changes=not own and bool(self._scenario["schedule"]))
            idle = self._ping(agents)
            agents.ask(self._orders())
            logger.start()
            zero = self._begin(agents, carrier, logger)
            self._wait(zero)
            senders, receivers = logger.stop()
            answers = agents.ask({host: {"do": "end"} for host in at_hosts}, takes_s=self._patience_s())
            settled = time.monotonic() + SETTLE_S
            changed = state.changes()
            time.sleep(max(0.0, settled - time.monotonic()))
            carried = carrier.stop()
            stopped = True
        finally:
            if not stopped:
                carrier.stop()
        observed = Observed(
            scenario=self._scenario,
            senders=tcp_info.frame(_until(senders, self._scenario["duration_ns"])),
            receivers=tcp_info.frame(_until(receivers, self._scenario["duration_ns"])),
            carried=carried,
            reports={
                (flow["flow"], flow["role"]): flow for answer in answers.values() for flow in answer["flows"]
            },
            starts=self._starts,
            zero_ns=zero,
            sessions=_sessions(answers),
        )
        end_ns = self._scenario["duration_ns"]
        self._write(writer, observed, _until(senders, end_ns), _until(receivers, end_ns), answers)
        writer.attach(FILE, state.document(changed))
        return Outcome(
            summary=summary.summary(observed),
            facts={**self._facts(observed, idle, built), "machine": state.facts},
            warnings=[
                *self._warnings(observed, logger, idle),
                *host_state.warnings(changed, f"{self._run_id}-{FILE}"),
            ],
        )

    def _patience_s(self) -> float:
        """How long ends may take to end."""
        tools_used = {flow["tool"] for flow in self._scenario["live"]["flows"].values()}
        return load.AFTER_S if tools.LOAD_TOOL in tools_used else 0.0

    def _carrier(self, built: Network) -> Carrier:
        if self._scenario["live"]["emulator"] == "kernel":
            return KernelPath(self._run_id, self._scenario, self._layout, built)
        return OwnEmulator(self._run_id, self._scenario, self._layout, built, self._directory)

    def _ping(self, agents: Agents) -> dict[str, list[int]]:
        """Round trips between the ends of each flow while nothing else goes on, ns, by `FROM>TO`."""
        if "ping" not in self._wanted:
            return {}
        pairs: dict[str, list[str]] = {}
        for ends in self._layout.flows.values():
            targets = pairs.setdefault(ends.from_, [])
            if ends.to not in targets:
                targets.append(ends.to)
        order = {"do": "ping", "count": PINGS, "interval_ns": PING_NS}
        addresses = self._layout.hosts
        orders = {host: {**order, "to": [addresses[to] for to in targets]} for host, targets in pairs.items()}
        answers = agents.ask(orders, takes_s=2.0 * max(map(len, pairs.values())))
        return {
            f"{host}>{to}": answers[host]["ping"][addresses[to]]
            for host, targets in pairs.items()
            for to in targets
        }

    def _orders(self) -> dict[str, dict[str, Any]]:
        base = {
            flow["name"]: base_rtt_ns(self._scenario, flow["from"], flow["to"])
            for flow in self._scenario["flows"]
        }
        tasks = agents.tasks(self._scenario, self._layout.flows, self._starts, base)
        measure = self._scenario["measure"]
        return {
            host: {
                "do": "prepare",
                "measure": [measure["from_ns"], measure["to_ns"]],
                "duration_ns": self._scenario["duration_ns"],
                "sends": [task for task in tasks if self._layout.flows[task["flow"]].from_ == host],
                "receives": [task for task in tasks if self._layout.flows[task["flow"]].to == host],
            }
            for host in self._layout.hosts
        }

    def _begin(self, agents: Agents, carrier: Carrier, logger: TcpInfoLogger) -> int:
        """Tell everybody when t = 0 is, and return it: early enough for the tools that have to be started
        before."""
        flows = [
            (flow, self._scenario["live"]["flows"][flow["name"]]["tool"]) for flow in self._scenario["flows"]
        ]
        early = max(
            tools.lead_ns(tool, base_rtt_ns(self._scenario, flow["from"], flow["to"]))
            - self._starts[flow["name"]]
            for flow, tool in flows
        )
        zero = time.monotonic_ns() + LEAD_NS + max(0, early)
        carrier.mark_start(zero)
        logger.mark_start(zero)
        agents.ask({host: {"do": "start", "zero_ns": zero} for host in self._layout.hosts})
        return zero

    def _wait(self, zero: int) -> None:
        end = zero + self._scenario["duration_ns"]
        while (left := end - time.monotonic_ns()) > 0:
            self._look()
            self._control.progress(max(0, time.monotonic_ns() - zero))
            time.sleep(min(left / 1e9, STEP_S))
        self._control.progress(self._scenario["duration_ns"])

    def _look(self) -> None:
        if self._control.cancelled():
            raise CancelledError

    def _write(
        self,
        writer: RunWriter,
        observed: Observed,
        senders: pa.Table,
        receivers: pa.Table,
        answers: Mapping[str, Mapping[str, Any]],
    ) -> None:
        if self._scenario["record"]["tcp"]["kind"] != "off" and "tcp_info" in self._wanted:
            headers = summary.headers(self._scenario)
            for table, batches in tcp_info.split(senders, receivers, headers).items():
                for batch in batches:
                    writer.rows(table, batch)
        self._write_carried(writer, observed)
        writer.rows("samples", summary.sample_rows(observed, self._run_id))
        if "iperf3" in self._wanted:
            reports = [
                report
                for answer in answers.values()
                for report in answer["reports"]
                if report["tool"] in tools.SUFFIX
            ]
            for report in sorted(reports, key=lambda report: (report["flow"], report["role"])):
                suffix = tools.SUFFIX[report["tool"]]
                name = f"{report['flow']}-{report['tool']}-{report['role']}.{suffix}"
                writer.attach(name, report["text"].encode())

    def _write_carried(self, writer: RunWriter, observed: Observed) -> None:
        """What the path saw, and the events that TCP_INFO tells of among its own."""
        wanted = self._scenario["record"]["queue"]["kind"] != "off" and "queue" in self._wanted
        events = [summary.event_rows(observed, self._run_id)]
        for table, batch in observed.carried.batches:
            rows = _until(pa.Table.from_batches([batch]), self._scenario["duration_ns"])
            if table == "events":
                events += rows.to_batches()
            elif wanted:
                for part in rows.to_batches():
                    writer.rows(table, part)
        merged = pa.concat_tables([_plain(pa.Table.from_batches([batch])) for batch in events])
        for batch in merged.sort_by([("t_ns", "ascending")]).combine_chunks().to_batches():
            writer.rows("events", batch)
        for point, file in observed.carried.captures.items():
            with file.open("rb") as pcap:
                while data := pcap.read(1 << 20):
                    writer.capture(point, data)

    def _facts(self, observed: Observed, idle: Mapping[str, list[int]], built: Network) -> dict[str, Any]:
        return {
            "emulator": self._scenario["live"]["emulator"],
            "path": observed.carried.health,
            "idle_ping_ns": dict(idle),
            "start_skew_ns": summary.opening_skew_ns(observed),
            "sysctls": {
                host["name"]: network.sysctls_of(host, self._scenario["flows"])
                for host in self._scenario["hosts"]
            },
            "namespaces": sorted(built.namespaces.values()),
        }

    def _warnings(
        self, observed: Observed, logger: TcpInfoLogger, idle: Mapping[str, list[int]]
    ) -> list[str]:
        found = []
        if observed.carried.unreliable:
            found.append(f"unreliable: {observed.carried.unreliable}")
        found += [f"TCP_INFO: {trouble}" for trouble in dict.fromkeys(logger.troubles)]
        found += [f"idle ping {pair}: no reply" for pair, trips in idle.items() if not trips]
        for (flow, role), report in observed.reports.items():
            if report["error"]:
                found.append(f"flow {flow}, {'sender' if role == 'from' else 'receiver'}: {report['error']}")
        found += [
            f"flow {flow}: {session.error}" for flow, session in observed.sessions.items() if session.error
        ]
        return found


def _sessions(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Session]:
    """What the loadlatency tool saw, by the name of the pinger."""
    reports = [report for answer in answers.values() for report in answer["reports"]]
    return {
        report["flow"]: Session(json.loads(report["text"]) if report["text"] else None, report["error"])
        for report in reports
        if report["tool"] == tools.LOAD_TOOL and report["role"] == "from"
    }


def start_times(scenario: Mapping[str, Any]) -> dict[str, int]:
    """When each flow opens, ns of the run: what the engine draws, so that the model begins as we do."""
    starts = _native.start_times(json.dumps(engine_scenario(scenario)))
    return {flow["name"]: start for flow, start in zip(scenario["flows"], starts, strict=True)}


def base_rtt_ns(scenario: Mapping[str, Any], one: str, other: str) -> int:
    """The sum of delays between two hosts, there and back: of links, and of what stands at their egress."""
    from cwndlab.scenario.topology import Routes

    ways = Routes((link["name"], link["from"], link["to"]) for link in scenario["links"])
    delays: dict[str, int] = {link["name"]: link["delay_ns"] for link in scenario["links"]}
    taken = (delays[name] for way in (ways.way(one, other), ways.way(other, one)) for name in way or ())
    egresses = (host["egress"] for host in scenario["hosts"] if host["name"] in (one, other))
    added: int = sum(egress["delay_ns"] for egress in egresses if egress is not None)
    return sum(taken) + added


def _until(rows: pa.Table, end_ns: int) -> pa.Table:
    """Rows before the end of the run."""
    return rows.filter(pc.field("t_ns") < end_ns) if rows.num_rows else rows


def _plain(rows: pa.Table) -> pa.Table:
    """Rows with names as text, which sort and join as they are."""
    columns = {
        name: rows[name].cast(pa.utf8()) if pa.types.is_dictionary(rows[name].type) else rows[name]
        for name in rows.column_names
    }
    return pa.table(columns)
