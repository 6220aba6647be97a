"""Advice for operators: what to set on hosts and routers, with what each would carry on the models."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cwndlab.execution import faults, runner


def simulated(experiment: str, columns: Sequence[str], jobs: int) -> list[dict[str, Any]]:
    """Carry out each cell of an experiment once on the models; a row for each flow, with these columns."""
    with tempfile.TemporaryDirectory(prefix="cwndlab-advise-") as directory:
        results = runner.run(
            faults.load(experiment, ["repeat=1"]), out=Path(directory) / "results", jobs=jobs
        )
        return results.summary.select(columns).to_dicts()
