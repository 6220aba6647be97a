"""Ratios that a bench measured when they were last recorded, and how far today's are from them.

`baseline.json` beside this file holds them, by bench and row. They are ratios to a peer or to a plain case on
the same machine, or numbers of instructions, so that machines can be compared. CWNDLAB_BASELINE=write records
today's.
"""

import json
import os
from pathlib import Path

FILE = Path(__file__).resolve().parent / "baseline.json"


class Baseline:
    """The recorded ratios of one bench."""

    def __init__(self, bench: str) -> None:
        """Read what was recorded for `bench`."""
        self._bench = bench
        self._recorded: dict[str, float] = _read().get(bench, {})
        self._today: dict[str, float] = {}

    def change(self, row: str, ratio: float) -> str:
        """How far `ratio` is from what was recorded for `row`, such as `+3.1 %`; `new` without a record."""
        self._today[row] = ratio
        return f"{self.growth(row, ratio):+.1%}".replace("%", " %") if row in self._recorded else "new"

    def growth(self, row: str, ratio: float) -> float:
        """Share by which `ratio` is above what was recorded for `row`; 0 without a record."""
        return ratio / self._recorded.get(row, ratio) - 1

    def write(self) -> None:
        """Record today's ratios, if the environment asks for it; rows that were not measured stay."""
        if os.environ.get("CWNDLAB_BASELINE") != "write":
            return
        rounded = {row: float(f"{ratio:.4g}") for row, ratio in self._today.items()}
        everything = _read()
        everything[self._bench] = self._recorded | rounded
        FILE.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _read() -> dict[str, dict[str, float]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
