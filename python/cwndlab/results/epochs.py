"""Says in which combinations flows have too few congestion epochs for their means to be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cwndlab.results.summary import RAN
from cwndlab.results.texttable import telling

if TYPE_CHECKING:
    from cwndlab.results.resultset import ResultSet

FEW = 20
"""Congestion epochs in the measured time, of all repeats together, of which a mean needs so many."""

MOSTLY = 50
"""Per cent of its time for which the congestion window limits a flow whose epochs decide its means."""

_BY_LOSS = ("cubic", "ctcp", "htcp", "newreno", "reno")
"""Congestion controls whose epochs end with a loss."""

_COUNTS = ("fast_recoveries", "rtos", "ce_marks", "limited_cwnd_pct")
_COLUMNS = ("run_id", "flow", "cc", "app", "status", *_COUNTS, "completion_s")

_Row = Mapping[str, Any]
_Cell = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Few:
    """A note that flows have few congestion epochs."""

    text: str
    runs: Sequence[str]
    """The numbers of the runs that have them."""


def few(results: ResultSet) -> Few | None:
    """The note on results that compare combinations. None where every mean has epochs enough.

    A flow without any loss has no epochs, and nothing is said of it.
    """
    flows = _by_cell(results)
    if len(flows) < 2:
        return None
    identities = {brief.run_id: brief.identity for brief in results.briefs}
    found: list[tuple[int, _Cell, str]] = []
    runs: set[int] = set()
    repeated = False
    for cell, of_cell in flows.items():
        for flow, rows in of_cell.items():
            # Repeats that are the same in everything count once.
            apart = {identities.get(_index(row)) or row["run_id"]: row for row in rows}
            fit = all(map(_has_epochs, rows))
            epochs = sum(row["fast_recoveries"] + row["rtos"] for row in apart.values()) if fit else 0
            if 0 < epochs < FEW:
                found.append((epochs, cell, flow))
                runs |= set(map(_index, rows))
                repeated |= len(apart) > 1
    if not found:
        return None
    least, cell, flow = min(found, key=lambda each: each[0])
    named = [dict(zip(results.keys, each, strict=True)) for each in flows]
    where = results.labels.words(dict(zip(results.keys, cell, strict=True)), telling(results.keys, named))
    where += f", flow {flow}" if len(flows[cell]) > 1 else ""
    time, more = ("measured time", "a longer duration tells more")
    if repeated:
        time, more = ("measured time of all repeats", "a longer duration or more repeats tell more")
    return Few(
        f"in {len({cell for _, cell, _ in found})} of {len(flows)} combinations a flow has fewer than {FEW}"
        f" congestion epochs in the {time} (fewest: {least}, {where}), so its means depend on where the"
        f" epochs fall; {more}",
        [str(index) for index in sorted(runs)],
    )


def _by_cell(results: ResultSet) -> dict[_Cell, dict[str, list[_Row]]]:
    """The rows of the flows that were carried out, by combination and name."""
    flows: dict[_Cell, dict[str, list[_Row]]] = {}
    rows: Sequence[_Row] = results.arrow.select([*results.keys, *_COLUMNS]).to_pylist()
    for row in rows:
        if row["status"] in RAN:
            of_cell = flows.setdefault(tuple(row[key] for key in results.keys), {})
            of_cell.setdefault(row["flow"], []).append(row)
    return flows


def _has_epochs(row: _Row) -> bool:
    """Whether a flow sent all the time, and its losses alone ended its epochs."""
    held = row["limited_cwnd_pct"]
    return (
        row["app"] == "bulk"
        and row["cc"] in _BY_LOSS
        and row["completion_s"] is None  # of a flow with a size
        and None not in (row["fast_recoveries"], row["rtos"])
        and not row["ce_marks"]
        and (held is None or held >= MOSTLY)
    )


def _index(row: _Row) -> int:
    return int(str(row["run_id"]).partition("-")[0])
