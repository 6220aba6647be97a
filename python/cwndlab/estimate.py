"""A plan before it is run: its runs with their parameters, and about how long they will take."""

import json

from cwndlab.parts import store, task
from cwndlab.parts.order import SET_UP_NS
from cwndlab.plan import Plan
from cwndlab.progress import clock
from cwndlab.results import texttable
from cwndlab.results.catalogue import run_id
from cwndlab.results.labels import Labels

START_S = 0.5
"""What a command costs before the first run, in s."""

MAX_RUNS = 40
"""Runs listed in text."""


def seconds(plan: Plan, jobs: int, pause_ns: int | None = None) -> float:
    """About how long the plan takes on that many workers, in s by the clock on the wall.

    `pause_ns`: the settle time between runs that take real time; None for the simulator.
    """
    if pause_ns is not None:
        return (plan.simulated_ns + (SET_UP_NS + pause_ns) * len(plan.runs)) / 1e9 / jobs
    cut = [task.seconds(part) for part in store.cut(plan.runs)]
    return START_S + max(*cut, sum(cut) / min(jobs, len(cut)))


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
    runs_in_all = (
        f"{_many(plan.cells, 'cell')} x {_many(plan.repeat, 'repeat')} = {_many(len(plan.runs), 'run')}"
    )
    warnings = dict.fromkeys(warning for run in plan.runs for warning in run.warnings)
    lines += [f"warning: {warning}" for warning in list(warnings)[:MAX_RUNS]]
    notes = dict.fromkeys(note for run in plan.runs for note in run.notes)
    lines += [f"note: {note}" for note in list(notes)[:MAX_RUNS]]
    lines += [
        "",
        f"{plan.experiment}: {runs_in_all}, together {clock(plan.simulated_ns / 1e9)} of traffic; "
        f"takes about {clock(seconds(plan, jobs, pause_ns))} on {_many(jobs, 'worker')}",
    ]
    return "\n".join(lines)


def as_json(plan: Plan) -> str:
    """The plan for programs: a line of JSON per run, with its Scenario."""
    return "\n".join(
        json.dumps(
            {
                "run_id": run_id(run),
                "repeat": run.repeat,
                "cell": run.cell,
                "notes": run.notes,
                "warnings": run.warnings,
                "scenario": run.scenario,
            },
            ensure_ascii=False,
        )
        for run in plan.runs
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
