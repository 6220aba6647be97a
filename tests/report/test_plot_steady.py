"""The plot kind `steady`: what all flows deliver each second, the mean of what is left, and the note."""

from typing import Any

import numpy as np
import pytest
from memory_results import settling, sweep

from cwndlab.errors import InputError
from cwndlab.report import plots

pytestmark = pytest.mark.slow


def said(figure: Any) -> str:
    """All texts of a figure."""
    titles = [axis.get_title(place) for axis in figure.axes for place in ("left", "center", "right")]
    texts = [*figure.texts, *(text for axis in figure.axes for text in axis.texts)]
    return " ".join([*titles, *(text.get_text() for text in texts)])


def test_lines_are_the_flows_together_and_the_mean_to_the_end():
    figure = plots.plot(settling(), "steady")
    goodput, left = figure.data["goodput [Mbit/s]"], figure.data["mean from there to the end"]
    rates = np.minimum(np.arange(1, 101), 20)
    assert figure.data["time [s]"].to_list() == list(range(100))
    assert goodput.to_numpy() == pytest.approx(rates)
    assert left[0] == pytest.approx(rates.mean())
    assert left[50] == left[99] == pytest.approx(20)
    assert "settled from 20 s on (MSER-5)" in said(figure)


def test_what_never_settles_or_is_too_short_is_said():
    assert "never settled (MSER-5)" in said(plots.plot(settling(first=100), "steady"))
    short = plots.plot(settling(seconds=49), "steady")
    assert "measured for less than 50 s, too short to tell whether it had settled" in said(short)


def test_a_flow_or_results_without_goodput_by_the_second_are_refused():
    with pytest.raises(InputError, match=r"^steady: is of all flows of a run together; leave out the flow$"):
        plots.plot(settling(), "steady", flows=["f1"])
    with pytest.raises(InputError, match="do not say what they delivered in each second"):
        plots.plot(sweep(), "steady", runs=[0])
