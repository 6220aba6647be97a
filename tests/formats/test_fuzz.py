"""A moment of what fuzz.py does for as long as it is asked: the same files in every run."""

import fuzz
import pytest

pytestmark = pytest.mark.slow

FILES = {"teacup": 240, "loadlatency": 240}
"""Files tried, where 60 do not do: one letter wrong is mostly one too many."""


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_damaged_files_are_refused_or_read(name: str) -> None:
    most = FILES.get(name, 60)
    tried, read = fuzz.fuzz(name, seconds=120, seed=2, most=most)
    assert tried == most
    # Small damage leaves most logs readable; otherwise nothing behind the first check would be tried.
    assert read > 0
