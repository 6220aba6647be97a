"""Testbed kernel: a real Linux kernel in virtual time, one guest a run."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from cwndlab import _native
from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import LinkSummary
from cwndlab.errors import InputError, RunError
from cwndlab.experiment.scenario.queries import app_of
from cwndlab.foreign import Module
from cwndlab.testbeds.base import CancelledError, Control, Outcome, RunWriter
from cwndlab.testbeds.kernel import guest, inventory, plan, qdiscs, store
from cwndlab.testbeds.kernel.support import APPS, NAME, NO_KERNEL
from cwndlab.testbeds.live.observation import counters, samples
from cwndlab.testbeds.live.observation.batches import batches
from cwndlab.testbeds.live.path.backend import PathReport
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.summary import collection, summary
from cwndlab.testbeds.live.summary.summary import Observed
from cwndlab.testbeds.live.traffic import clock
from cwndlab.testbeds.netns import ip
from cwndlab.testbeds.netns.layout import capture_points
from cwndlab.testbeds.tables import SCHEMAS

LACKS = "this kernel was built without IPv6 (cwndlab kernel build TREE makes one with it)"
PACKETS = "samples-packets"
"""File of the rows that packets make."""


class KernelGuest:
    """Real TCP of one kernel over its own queue disciplines, in virtual time."""

    name = NAME

    def __init__(self, kernel: Path | None = None, modules: Sequence[Module] = ()) -> None:
        """`kernel` is the folder in which a kernel is kept; `modules` is empty."""
        self._kernel = None if kernel is None else store.read(kernel)

    @property
    def _own(self) -> store.Kernel:
        if self._kernel is None:
            raise InputError(NO_KERNEL)
        return self._kernel

    def ready(self) -> None:
        """Raises InputError where guests cannot be, or no kernel is named."""
        reason = guest.ready()
        if reason is not None:
            raise InputError(reason)
        inventory.of(self._own)

    def remarks(self) -> list[str]:
        """The kernel, and what a crash left."""
        left = len(guest.left_behind())
        crashed = (
            [f"a crash left {left} folders in memory: cwndlab doctor --clean removes them"] if left else []
        )
        return [self._own.name, *crashed]

    def clean(self) -> list[str]:
        """Remove the folders of guests whose process is gone; the guests ended with it."""
        left = guest.left_behind()
        for place in left:
            shutil.rmtree(place, ignore_errors=True)
        return [place.name for place in left]

    def versions(self) -> dict[str, str]:
        """The kernel with hashes of what it was made of, and the engine, whose agent is in the guest."""
        return {"engine": _native.version(), "kernel": self._own.made_of}

    def preflight(self, scenario: Scenario, cell: Mapping[str, str]) -> list[str]:
        """Return what this kernel or the testbed cannot do."""
        live, has = cast(LiveScenario, scenario), inventory.of(self._own)
        found = list(_refusals(live, has, self._own.hz))
        try:
            for flow in scenario["flows"]:
                _native.check_live_app(json.dumps(flow["app"]))
            if not found:
                plan.make(0, live, clock.start_times(live), has)
        except ValueError as error:
            found.append(str(error))
        return found

    def run(self, run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
        """Carry out one run to its end in virtual time."""
        live, has = clock.in_phase(cast(LiveScenario, scenario)), inventory.of(self._own)
        starts = clock.start_times(live)
        told = plan.make(run_id, live, starts, has)

        def look() -> None:
            if control.cancelled():
                raise CancelledError

        def boot() -> dict[str, bytes]:
            return guest.boot(self._own, told, seed=_seed(scenario), look=look, progress=control.progress)

        try:
            left, report = _with_room(told["taps"], boot)
        except guest.KernelFailedError as failed:
            writer.attach(guest.CONSOLE, failed.console)
            raise
        rows = [_rows(left, role, scenario["duration_ns"]) for role in plan.ROLES]
        observed = Observed(
            scenario=live,
            senders=samples.frame(rows[0]),
            receivers=samples.frame(rows[1]),
            carried=_path(run_id, scenario, report, batches(left.get(PACKETS, b""))),
            reports={(flow["flow"], flow["role"]): flow for flow in report["flows"]},
            starts=starts,
        )
        collection.write(writer, run_id, observed, (rows[0], rows[1]), {})
        writer.attach(counters.FILE, counters.changed(_counted(live, report["counters"])))
        for number, point in enumerate(capture_points(scenario)):
            writer.capture(point, left[f"{plan.CAPTURE}{number}"])
        return Outcome(
            summary=summary.summary(observed),
            facts={"kernel": report["kernel"], "start_skew_ns": summary.opening_skew_ns(observed)},
            warnings=_warnings(observed, report),
        )


def _with_room(taps: dict[str, Any], boot: Callable[[], dict[str, bytes]]) -> tuple[dict[str, bytes], Any]:
    """Have a guest carry out its plan, again with larger rings while packets find no place in them.

    Returns the files that it left, and its report. Raises RunError where the largest rings are too small.
    """
    while True:
        left = boot()
        report = json.loads(left["report.json"])
        if "counters" not in report:
            raise RunError("the agent in the guest is of another version of cwndlab (make agent)")
        if not report["unseen"]:
            return left, report
        if taps["places"] == plan.MOST_PLACES:
            raise RunError(f"{report['unseen']} packets passed unseen")
        taps["places"] = min(8 * taps["places"], plan.MOST_PLACES)


def _refusals(scenario: LiveScenario, has: inventory.Inventory, hz: int) -> Iterator[str]:
    yield from ip.troubles(scenario, LACKS, v6=ip.has_v6(has.kernel.sysctls))
    for host in (host for host in scenario["hosts"] if host["hz"] != hz):
        build = f"cwndlab kernel build TREE --hz {host['hz']}"
        yield f"host {host['name']}: hz {host['hz']}, and this kernel was built with {hz} ({build})"
    for flow in scenario["flows"]:
        app = app_of(flow).get("kind")
        if app in APPS:
            yield f"flow {flow['name']}: testbed kernel does not carry out {app} yet"
    for node in scenario["nodes"]:
        if node["switch"] is not None:
            yield f"node {node['name']}: queue disciplines share no buffer"
    hosts = {host["name"] for host in scenario["hosts"]}
    for link in scenario["links"]:
        of_host = link["from"] in hosts
        if reason := qdiscs.refusal(link, of_host=of_host):
            yield f"link {link['name']}: {reason}"
        changes = [change for change in scenario["schedule"] if change["link"] == link["name"]]
        refused = [
            reason for change in changes if (reason := qdiscs.change_refusal(link, change, of_host=of_host))
        ]
        yield from (f"link {link['name']}: {reason}" for reason in refused)
        needed = qdiscs.needs(link, changing=bool(changes), at_host=of_host and qdiscs.paces(link))
        lacking = [kind for kind in needed if not has.has_queue(kind)]
        yield from (
            f"link {link['name']}: {has.kernel.release} has no queue discipline {kind}" for kind in lacking
        )


def _counted(scenario: LiveScenario, told: Mapping[str, list[str]]) -> dict[str, tuple[str, str]]:
    """The texts of hosts' counters, before and after, by host; a guest calls hosts by their numbers."""
    names = [host["name"] for host in scenario["hosts"]]
    return {names[int(number)]: (before, after) for number, (before, after) in told.items()}


def _seed(scenario: Scenario) -> int:
    """The seed of a guest's random numbers, which follows from the experiment's and the repeat."""
    text = f"{scenario['seed']} {scenario['repeat']} guest"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _rows(left: Mapping[str, bytes], role: str, end_ns: int) -> pa.Table:
    tables = [table for _, table in batches(left.get(f"samples-{role}", b""))]
    return collection.until(pa.concat_tables(tables).sort_by("t_ns"), end_ns) if tables else pa.table({})


def _path(
    run_id: int, scenario: Scenario, report: Mapping[str, Any], packets: list[tuple[str, pa.Table]]
) -> PathReport:
    """Report the queue disciplines' counters, the samples of them, and the packets that were seen."""
    links: list[LinkSummary] = []
    for link in scenario["links"]:
        seen = report["links"].get(link["name"])
        if seen is not None:
            links.append(
                {
                    "link": link["name"],
                    "packets": seen["packets"],
                    "bytes": seen["bytes"],
                    "drops": seen["drops"],
                    "ce_marks": seen["marks"],
                    "busy_ns": None,
                }
            )
    events = [(table, batch) for table, rows in packets for batch in rows.to_batches()]
    flows = {flow["flow"]: flow for flow in report["packets"]}
    return PathReport([("queue", _queue(run_id, report["queue"])), *events], links, flows)


def _queue(run_id: int, looks: list[Any]) -> pa.RecordBatch:
    schema = SCHEMAS["queue"]
    columns = [
        pa.array([run_id] * len(looks), pa.uint32()),
        pa.array([at for at, _, _ in looks], pa.uint64()),
        pa.array([name for _, name, _ in looks], pa.utf8()).dictionary_encode(),
        pa.array([seen["backlog_bytes"] for _, _, seen in looks], pa.uint64()),
        pa.array([seen["backlog_packets"] for _, _, seen in looks], pa.uint32()),
        pa.array([seen["drops"] for _, _, seen in looks], pa.uint64()),
        pa.array([seen["marks"] for _, _, seen in looks], pa.uint64()),
    ]
    return pa.record_batch(columns, names=schema.names)


def _warnings(observed: Observed, report: Mapping[str, Any]) -> list[str]:
    found = [f"TCP_INFO: {error}" for told in report["samplers"].values() for error in told["errors"]]
    for (flow, role), seen in observed.reports.items():
        if seen["error"]:
            found.append(f"flow {flow}, {'sender' if role == 'from' else 'receiver'}: {seen['error']}")
    return found
