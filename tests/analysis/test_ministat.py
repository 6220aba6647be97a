"""ministat's layout: its manual's example, an example worked out by hand, and its own output."""

import numpy as np
import pytest

from cwndlab.analysis import ministat

IGUANA = np.array([50.0, 200, 150, 400, 750, 400, 150])
CHAMELEON = np.array([150.0, 400, 720, 500, 930])
"""The data of ministat(1)'s example, as its metrics give them."""

# As `ministat -s -w 74` of Debian's package 20150715-1 prints it, but for the two values each at 150 and
# at 400, which that version draws as one.
MANUAL = """\
x iguana
+ chameleon
+--------------------------------------------------------------------------+
|        x                    x                                            |
|x       *   x                *       +                  + x              +|
| |__________M________A__________________|                                 |
|                |____________________M___A_______________________|        |
+--------------------------------------------------------------------------+
    N           Min           Max        Median           Avg        Stddev
x   7            50           750           200           300     238.04761
+   5           150           930           500           540     299.08193
No difference proven at 95.0% confidence"""

# By hand: means 10 and 12.2, deviations 1 and 1, so the pooled one is 1. At 80 % and 4 degrees of freedom
# t is 1.533, and the half width 1.533 sqrt(1/3 + 1/3) = 1.25169. Of the ratio: (2 x 1 + 2 x 1 x 1.22^2) x
# 6 / (3 x 3 x 4) = 0.829467, whose root 0.910751 x 1.533 = 1.39618 is 13.9618 % of 10. The axis is from 9
# to 13.2, with 4.2/73 from the middle of one of 74 columns to the next: 10 is 17.4 columns from 9, 11 is
# 34.8, 11.2 is 38.2, 12.2 is 55.6, 13.2 is 73; each goes to the nearest.
HAND = """\
x before
+ after
+--------------------------------------------------------------------------+
|x                x                 x  +                 +                +|
||________________A_________________|                                      |
|                                      |_________________A________________||
+--------------------------------------------------------------------------+
    N           Min           Max        Median           Avg        Stddev
x   3             9            11            10            10             1
+   3          11.2          13.2          12.2          12.2             1
Difference at 80.0% confidence
\t2.2 +/- 1.25169
\t22% +/- 13.9618%
\t(Student's t, pooled s = 1)"""


def test_the_example_of_the_manual() -> None:
    assert ministat.text(IGUANA, CHAMELEON, ("iguana", "chameleon")) == MANUAL


def test_an_example_by_hand() -> None:
    before, after = np.array([9.0, 10, 11]), np.array([11.2, 12.2, 13.2])
    assert ministat.text(before, after, ("before", "after"), 0.8) == HAND
    # At 95 % t is 2.776 and the half width 2.26659.
    assert ministat.text(before, after, ("before", "after")).endswith(
        "No difference proven at 95.0% confidence"
    )


def test_equal_values_stand_on_each_other_and_flat_ones_have_no_plot() -> None:
    lines = ministat.text(np.array([1.0, 1, 3]), np.array([1.0, 3, 3]), ("a", "b")).splitlines()
    assert [lines[3].split(), lines[4].split()] == [["|", "x", "+", "|"], ["|", "*", "*", "|"]]
    assert [lines[3].index("x"), lines[3].index("+")] == [
        place for place, mark in enumerate(lines[4]) if mark == "*"
    ]
    flat = np.full(3, 5.0)
    assert "[no plot, span is zero width]" in ministat.text(flat, flat, ("a", "b"))


def test_the_median_of_an_even_number_is_between_the_middle_two() -> None:
    text = ministat.text(np.array([1.0, 2, 4, 8]), np.array([1.0, 2, 4, 8]), ("a", "b"))
    assert "x   4             1             8             3          3.75     3.0956959" in text


def test_two_values_are_too_few() -> None:
    with pytest.raises(ValueError, match="three values"):
        ministat.text(np.array([1.0, 2]), IGUANA, ("a", "b"))
