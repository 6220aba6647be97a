"""What commands print as sentences."""

import pytest

from cwndlab.results.texttable import wrapped

SAID = "RTT: new is 70.2 % higher than old, 95 % sure (between +9.41 and +119 ms), or ∞ % of 3 min"


@pytest.mark.parametrize("width", range(12, 60))
def test_a_number_and_its_unit_stand_in_one_line(width):
    lines = wrapped(SAID, width, first="  ").split("\n")
    assert max(map(len, lines)) <= width
    assert not any(line.lstrip().startswith(("%", "ms)", "min")) for line in lines)
    assert " ".join(line.removeprefix("  ") for line in lines) == SAID


def test_words_that_begin_as_a_unit_are_broken_as_others():
    assert wrapped("3 sweeps of 40 minutes", 7).split("\n") == ["3", "sweeps", "of 40", "minutes"]
