"""Steady state by MSER-5: what has settled, what has not, and what is too short to tell."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import Summary
from cwndlab.results import briefs, steady


def noise(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.02, count)


def run_of(
    *flows: np.ndarray, first: int = 0, measured: tuple[int, int] | None = None
) -> tuple[Scenario, Summary]:
    begin, end = measured or (first, first + max(map(len, flows)))
    window = {"from_ns": begin * 10**9, "to_ns": end * 10**9}
    told: list[dict[str, Any]] = [
        {"goodput_seconds": {"from_ns": first * 10**9, "bytes": [round(1e6 * value) for value in flow]}}
        for flow in flows
    ]
    return cast("Scenario", {"measure": window}), cast("Summary", {"flows": told})


def test_a_start_that_is_unlike_the_rest_is_left_out() -> None:
    values = np.concatenate([np.linspace(0, 1, 20), np.ones(80)]) + noise(100)
    begin = steady.begins(values)
    assert begin is not None
    assert 15 <= begin < 50


@pytest.mark.parametrize("seed", range(5))
def test_what_only_varies_has_settled(seed: int) -> None:
    assert steady.unsettled(*run_of(1 + noise(100, seed))) is None


def test_a_sawtooth_has_settled() -> None:
    teeth = 0.85 + 0.15 * (np.arange(120) % 15) / 14
    assert steady.unsettled(*run_of(teeth)) is None


def test_goodput_that_still_rises_has_not() -> None:
    off = steady.unsettled(*run_of(np.linspace(0.2, 1, 100) + noise(100)))
    # A line from 0.2 to 1 has a mean of 0.6, its second half one of 0.8.
    assert off == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("count", [50, 60, 75, 200])
def test_a_rise_has_not_settled_in_any_window_that_is_looked_at(count: int) -> None:
    assert steady.unsettled(*run_of(np.linspace(0.4, 1, count))) is not None


def test_flows_that_share_a_full_path_have_settled_together() -> None:
    one = np.linspace(1, 0.5, 100) + noise(100)
    assert steady.unsettled(*run_of(one)) is not None
    assert steady.unsettled(*run_of(one, 1 - one)) is None


def test_only_the_measurement_window_counts() -> None:
    values = np.concatenate([np.linspace(0, 1, 80), np.ones(60)]) + noise(140)
    assert steady.unsettled(*run_of(values, measured=(0, 80))) is not None
    assert steady.unsettled(*run_of(values, measured=(85, 140))) is None


def test_a_short_window_says_nothing() -> None:
    assert steady.unsettled(*run_of(np.linspace(0.2, 1, 49))) is None


def briefs_of(cells: dict[str, list[float | None]]) -> list[Any]:
    """Briefs of runs, each cell with how far its runs are off."""
    told = [(rate, off) for rate, offs in cells.items() for off in offs]
    return [
        SimpleNamespace(run_id=at, cell={"rate": rate}, unsettled=off) for at, (rate, off) in enumerate(told)
    ]


def test_a_note_names_the_runs_of_combinations_that_mostly_never_settled() -> None:
    found = briefs.never_settled(briefs_of({"1": [0.1, 0.25, None], "2": [0.4, None], "3": [None]}))
    assert found is not None
    assert "never settled in 2 of 6 runs (MSER-5): its mean is up to 25 % off" in found.text
    assert found.runs == ["0", "1"]
    assert briefs.never_settled(briefs_of({"1": [0.1, None]})) is None
