"""Short runs of experiment texts on the engine, and what they leave."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cwndlab import _native, load
from cwndlab.results.summary import flow_metrics


@dataclass(frozen=True)
class Short:
    """One run: its Scenario, the engine's summary, the metrics of each flow, and its rows by table."""

    scenario: dict[str, Any]
    summary: dict[str, Any]
    metrics: dict[str, dict[str, Any]]
    rows: dict[str, list[dict[str, Any]]]

    def flow(self, name: str) -> dict[str, Any]:
        return next(flow for flow in self.summary["flows"] if flow["flow"] == name)

    def link(self, name: str) -> dict[str, Any]:
        return next(link for link in self.summary["links"] if link["link"] == name)

    def samples(self, flow: str, kind: str) -> list[int]:
        rows = self.rows.get("samples", [])
        return [row["value"] for row in rows if row["flow"] == flow and row["kind"] == kind]

    def dropped_at(self, hop: str) -> int:
        return sum(row["hop"] == hop and row["kind"] == "drop" for row in self.rows.get("events", []))


def run(text: str, **overrides: str) -> Short:
    """Run the only run of an experiment, a text or a file; ``hosts__b__nic__gro="true"`` overrides a key."""
    experiment = load(
        text if "\n" in text else Path(text),
        ["repeat=1", *(f"{key.replace('__', '.')}={value}" for key, value in overrides.items())],
    )
    (planned,) = experiment.plan().runs
    simulation = _native.Simulation(json.dumps(planned.scenario), 0)
    rows: dict[str, list[dict[str, Any]]] = {}
    over = False
    while not over:
        over = simulation.advance(1 << 18)
        for table, batch in simulation.take():
            rows.setdefault(table, []).extend(pa.record_batch(batch).to_pylist())
    summary = json.loads(simulation.summary())
    return Short(planned.scenario, summary, flow_metrics(planned.scenario, summary), rows)
