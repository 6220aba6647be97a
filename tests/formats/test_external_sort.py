"""Rows that are sorted on the disk: what is held of them does not grow with their number."""

import numpy as np
import pyarrow as pa
import pytest

from cwndlab.formats import external_sort
from cwndlab.formats.external_sort import FIRST, SECOND, Sorter


def test_what_is_held_of_a_run_does_not_grow_with_what_was_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the same few times again and again: each merge takes rows of all runs at once."""
    for limit, value in (("HELD_BYTES", 6000), ("BLOCK_BYTES", 3000), ("MOST_RUNS", 4)):
        monkeypatch.setattr(external_sort, limit, value)
    largest = 0
    get = external_sort.Store.get

    def watched(store: external_sort.Store, number: int) -> pa.RecordBatch:
        nonlocal largest
        found = get(store, number)
        largest = max(largest, found.nbytes)
        return found

    monkeypatch.setattr(external_sort.Store, "get", watched)
    sorter, times = Sorter(), np.tile(np.arange(5), 60)
    for number in range(40):
        columns = [times, np.zeros(300, np.int64), np.full(300, number)]
        sorter.add(
            pa.RecordBatch.from_arrays([pa.array(column) for column in columns], [FIRST, SECOND, "of"])
        )
    found = pa.Table.from_batches(sorter.batches())
    assert found.num_rows == 40 * 300
    order = found["first"].to_numpy() * 100 + found["of"].to_numpy()
    assert (np.diff(order) >= 0).all(), "in order, equal ones as they came"
    assert largest <= 3000
