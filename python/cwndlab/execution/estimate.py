"""A plan before it is run: its runs with their parameters, and about what they will cost."""

import heapq
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.execution import store
from cwndlab.execution.cost import PROCESS_MEMORY, Cost, Costs
from cwndlab.execution.progress import clock
from cwndlab.execution.run_order import SET_UP_NS
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.plan import Plan, PlannedRun
from cwndlab.results import texttable
from cwndlab.results.catalogue import run_id
from cwndlab.results.labels import Labels

START_S = 0.5
"""Time that a command needs before the first run, in s."""

MAX_RUNS = 40
"""Runs listed in text."""

MEMINFO = Path("/proc/meminfo")

MUCH = 100_000_000
"""Bytes on the disk from which a plan says what they are."""

REPORT_BYTES = 2_000_000
"""Bytes of the report, about."""


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of runs together."""

    series: Mapping[str, int]
    """Bytes on the disk by what is recorded (`cwndlab.execution.cost.Cost.series`)."""
    memory: int
    """Bytes of all processes at the same time."""
    seconds: float
    """Time by the clock on the wall, in s."""
    costly: Mapping[str, str]
    """Advice on what to record less, by what is recorded, where that takes much."""

    @property
    def disk(self) -> int:
        """Bytes on the disk."""
        return sum(self.series.values())


def of(runs: list[PlannedRun], jobs: int, pause_ns: int | None = None) -> Estimate:
    """Estimate the cost of some runs on that many workers.

    `pause_ns`: the settle time between runs that take real time. None for the simulator.
    """
    costs = Costs(catalogue())
    series: dict[str, int] = {"the rest": REPORT_BYTES}
    memory: list[int] = []
    took: dict[int, float] = {}
    for run in runs:
        cost = costs.of(run.scenario, run.limit)
        for name, count in cost.series.items():
            series[name] = series.get(name, 0) + count
        memory.append(cost.memory)
        took[run.index] = cost.seconds
    largest = heapq.nlargest(jobs, memory)
    if pause_ns is None:
        parts = [sum(took[run.index] for run in part.runs) for part in store.cut(runs)]
        seconds = START_S + max(*parts, sum(parts) / min(jobs, len(parts)), 0) if parts else START_S
    else:
        seconds = sum(run.scenario["duration_ns"] + SET_UP_NS + pause_ns for run in runs) / 1e9 / jobs
    return Estimate(series, PROCESS_MEMORY + sum(largest), seconds, _costly(runs))


def _costly(runs: Iterable[PlannedRun]) -> dict[str, str]:
    said = {}
    for run in runs:
        record = run.scenario["record"]
        if record["tcp"]["kind"] == "per-ack":
            said["tcp"] = "record.tcp 10ms instead of per-ack"
        elif record["tcp"]["kind"] == "interval":
            said.setdefault("tcp", "record.tcp at a longer interval")
        if record["queue"]["kind"] == "per-ack":
            said["queue"] = "record.queue 10ms instead of per-change"
        elif record["queue"]["kind"] == "interval":
            said.setdefault("queue", "record.queue at a longer interval")
        if record["pcap"]:
            said["pcap"] = "record.pcap at fewer places, with a smaller snaplen, or false"
    return said


SMALL_DISK = 10 << 20
"""Size in bytes of results tried on any disk: a full one ends them in one line, and loses nothing."""


SMALL_MEMORY = 500_000_000
"""Bytes of memory that are tried on any machine."""


def check_room(runs: list[PlannedRun], directory: Path, *, here: bool) -> None:
    """Raise InputError if the disk of a directory has no room for what runs record, or, where they are
    simulated `here`, the memory none for the largest.
    """
    found = of(runs, 1)
    refusal = _too_much(found, directory) or (here and _too_large(found, 1))
    if refusal:
        raise InputError(f"{directory}: {refusal}")


def _too_large(found: Estimate, jobs: int) -> str:
    """Warn where memory has no room for so many runs at a time. Empty where it has, or nobody knows."""
    free = free_memory()
    if free is None or found.memory <= max(free, SMALL_MEMORY):
        return ""
    which = "the largest run takes" if jobs == 1 else f"{jobs} runs at a time take"
    less = "fewer jobs, " if jobs > 1 else ""
    return (
        f"{which} up to {size(found.memory)} of memory, and {size(free)} are free; {less}smaller socket"
        " buffers, queues with a lower limit or fewer flows take less"
    )


def free_memory() -> int | None:
    """Bytes that programs can still have, as Linux says it. None elsewhere."""
    with suppress(OSError):
        found = re.search(r"^MemAvailable: *([0-9]+) kB$", MEMINFO.read_text(), re.MULTILINE)
        return int(found[1]) << 10 if found else None
    return None


def _too_much(found: Estimate, directory: Path) -> str:
    """Warn where the disk of a directory has no room for what runs record. Empty where it has."""
    there = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if found.disk <= max(free, SMALL_DISK):
        return ""
    most = sorted(found.costly, key=lambda name: -found.series.get(name, 0))
    less = [
        f"{found.costly[name]} ({size(found.series[name])})" for name in most if found.series.get(name, 0)
    ]
    advice = f"record less: {'; '.join(less)}" if less else "give results another disk with -o"
    return f"results take about {size(found.disk)}, and the disk has {size(free)} free; {advice}"


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.2g} {unit}" if count < 10 * scale else f"{count / scale:.0f} {unit}"
    return f"{count:.0f} B"


def as_text(plan: Plan, jobs: int, pause_ns: int | None = None, width: int = texttable.WIDTH) -> str:
    """The plan for people: a line for each of the first runs, what to know of them all, and the totals."""
    runs = plan.runs[:MAX_RUNS]
    keys = texttable.telling(plan.keys, [run.cell for run in plan.runs])
    short = texttable.short_names(keys)
    columns = [["run", *(str(run.index) for run in runs)]]
    labels = Labels({key: [run.cell[key] for run in plan.runs] for key in keys})
    columns += [[short[key], *(str(labels.value(key, run.cell[key])) for run in runs)] for key in keys]
    columns += [["repeat", *(str(run.repeat) for run in runs)]] if plan.repeat > 1 else []
    columns += [["length", *(clock(run.scenario["duration_ns"] / 1e9) for run in runs)]]
    lines = texttable.lines([texttable.Column(column) for column in columns], width)
    if len(plan.runs) > len(runs):
        lines.append(f"and {len(plan.runs) - len(runs)} more runs")
    return "\n".join([*lines, *remarks(plan), "", *totals(plan, jobs, pause_ns)])


def totals(plan: Plan, jobs: int, pause_ns: int | None = None) -> list[str]:
    """Lines on how many runs there are, and what they cost."""
    found = of(plan.runs, jobs, pause_ns)
    runs = f"{_many(plan.cells, 'cell')} x {_many(plan.repeat, 'repeat')} = {_many(len(plan.runs), 'run')}"
    parts = {name: count for name, count in found.series.items() if count >= found.disk / 100}
    of_what = ", ".join(f"{name} {size(count)}" for name, count in parts.items())
    much = [f"disk: {of_what}"] if found.disk >= MUCH else []
    warnings = [
        _too_much(found, Path("results")),
        "" if pause_ns is not None else _too_large(found, min(jobs, len(plan.runs))),
    ]
    return [
        f"{plan.experiment}: {runs}, together {clock(plan.simulated_ns / 1e9)} of traffic",
        *much,
        *(f"warning: {warning}" for warning in warnings if warning),
        f"takes about {clock(found.seconds)} on {_many(jobs, 'worker')}, {size(found.memory)} of memory and"
        f" {size(found.disk)} of disk",
    ]


def remarks(plan: Plan) -> list[str]:
    """Lines with the warnings and notes of a plan, each once."""
    warnings = dict.fromkeys(warning for run in plan.runs for warning in run.warnings)
    notes = dict.fromkeys(note for run in plan.runs for note in run.notes)
    lines = [f"warning: {warning}" for warning in list(warnings)[:MAX_RUNS]]
    lines += [f"note: {plan.why}"] if plan.why else []
    return lines + [f"note: {note}" for note in list(notes)[:MAX_RUNS]]


def as_json(plan: Plan) -> str:
    """The plan for programs: a line of JSON per run, with its Scenario and what it costs."""
    costs = Costs(catalogue())
    return "\n".join(
        json.dumps(
            {
                "run_id": run_id(run),
                "repeat": run.repeat,
                "cell": run.cell,
                "notes": run.notes,
                "warnings": run.warnings,
                "cost": _figures(costs.of(run.scenario, run.limit)),
                "scenario": run.scenario,
            },
            ensure_ascii=False,
        )
        for run in plan.runs
    )


def _figures(cost: Cost) -> dict[str, float]:
    return {
        "packets": cost.packets,
        "disk_bytes": cost.disk,
        "memory_bytes": cost.memory,
        "seconds": round(cost.seconds, 3),
    }


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
