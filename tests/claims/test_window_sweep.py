"""What the figures of the VirtIO article prove: estimates against literals, the page's table as made."""

from pathlib import Path

import numpy as np
import pytest

from cwndlab.suites import window_sweep

PAGE = Path(__file__).parents[2] / "docs/suites/window-sweep.md"


def test_expected_ranges_are_tippetts() -> None:
    # Tippett's table: 2 / sqrt(pi), 3 / sqrt(pi), and 3.07751 for ten values.
    assert window_sweep.expected_range(2) == pytest.approx(1.12838, abs=1e-5)
    assert window_sweep.expected_range(3) == pytest.approx(1.69257, abs=1e-5)
    assert window_sweep.expected_range(10) == pytest.approx(3.07751, abs=1e-5)


def test_correlated_seconds_are_worth_less() -> None:
    assert window_sweep.effective_samples(0.0) == 150
    assert window_sweep.effective_samples(1.0) == 5


def test_holm_corrects_in_steps() -> None:
    corrected = window_sweep.corrected(np.array([0.01, 0.04, 0.03]))
    assert corrected == pytest.approx([0.03, 0.06, 0.06])


def test_the_page_has_the_table() -> None:
    assert window_sweep.markdown() in PAGE.read_text(encoding="utf-8")
