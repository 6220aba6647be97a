"""The benchmark of the queue disciplines fails on instructions and on time, and on nothing else."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHES = Path(__file__).parents[2] / "benches"


@pytest.fixture
def disciplines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHES))
    return importlib.import_module("disciplines")


def test_a_discipline_may_cost_twice_what_pfifo_does(disciplines: ModuleType) -> None:
    cost = disciplines.Cost
    fair = {
        ("pfifo", 1): cost(1900.0, 100.0),
        ("pfifo", 100): cost(2600.0, 170.0),
        ("codel", 1): cost(3800.0, 200.0),
        # More than twice the pfifo of one flow.
        ("codel", 100): cost(5200.0, 340.0),
    }
    assert disciplines.too_dear(fair) == []
    dear = fair | {
        ("red", 1): cost(3900.0, 150.0),
        ("cake", 100): cost(4500.0, 408.0),
    }
    assert disciplines.too_dear(dear) == [
        "red with 1 flows: 2.05 times the instructions of pfifo",
        "cake with 100 flows: 2.40 times the time of pfifo",
    ]
