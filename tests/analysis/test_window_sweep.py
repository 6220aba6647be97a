"""What the metrics of the VirtIO article prove: estimates against literals, the page's table as made."""

from pathlib import Path

import numpy as np
import pytest
import window_sweep

PAGE = Path(__file__).parents[2] / "docs/evidence/suites/window-sweep.md"


def test_expected_ranges_are_tippetts() -> None:
    # Tippett's table: 2 / sqrt(pi), 3 / sqrt(pi), and 3.07751 for ten values.
    assert window_sweep.expected_range(2) == pytest.approx(1.12838, abs=1e-5)
    assert window_sweep.expected_range(3) == pytest.approx(1.69257, abs=1e-5)
    assert window_sweep.expected_range(10) == pytest.approx(3.07751, abs=1e-5)


def test_correlated_seconds_are_worth_less() -> None:
    assert window_sweep.effective_samples(0.0) == 150
    assert window_sweep.effective_samples(1.0) == 5


def test_runs_that_settle_a_difference() -> None:
    # Cohen's table 2.4.1 (two-sided, 5 %, power 80 %): effects of 0.5, 0.8 and 1.0 need these in each sample.
    assert [window_sweep.runs_needed(effect, 1.0) for effect in (0.5, 0.8, 1.0)] == [64, 26, 17]
    assert window_sweep.runs_needed(30.0, 1.0) == 2


def test_runs_spread_as_their_seconds_at_full_correlation() -> None:
    alike, independent = window_sweep.run_spread(1.0), window_sweep.run_spread(0.0)
    assert alike == pytest.approx(independent * 30**0.5)
    assert 0.14 < alike < 0.32  # smallest and largest of the published cells


def test_holm_corrects_in_steps() -> None:
    corrected = window_sweep.corrected(np.array([0.01, 0.04, 0.03]))
    assert corrected == pytest.approx([0.03, 0.06, 0.06])


def test_the_page_has_the_table() -> None:
    assert window_sweep.markdown() in PAGE.read_text(encoding="utf-8")
