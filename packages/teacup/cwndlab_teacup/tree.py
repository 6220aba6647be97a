"""A directory that TEACUP left: each test ID is a run, with what was varied read off its name.

Of the files of a test ID, logs of the stacks (`_siftr`, `_web10g`, `_ttprobe`) give the `tcp` table of their
flows, the hosts' captures (`.dmp`) samples, events and the flows no stack logged. Captures of the control
network (`_ctl`) and of the router are left out, as TEACUP's own analysis does, and so are logs of traffic
generators where there is anything else. What TEACUP's analysis extracted (`extracted`) counts where that
which it was extracted of is not there. The hosts' clocks are taken as they are; `one-way-delay` corrects them
from the captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cwndlab.errors import InputError
from cwndlab.formats import base, capture, siftr
from cwndlab.formats.base import Recording
from cwndlab.formats.capture import Options
from cwndlab.formats.directory import Run
from cwndlab.formats.external_sort import FIRST, SECOND, Sorter, StoredTable, TableWriter
from cwndlab_teacup import extracted, ttprobe, web10g

NAME = "TEACUP results"

MAX_FILES = 200_000
"""Files of a tree at most."""

_STACK_LOG = re.compile(r"(?P<id>.+)_(?P<host>[^_]+)_(?:siftr|web10g|ttprobe)\.log(?:\.(?:gz|xz|zst))?")
_GENERATOR_LOG = re.compile(r"(?P<id>.+)_(?P<host>[^_]+)_[0-9]+_iperf\.log(?:\.(?:gz|xz|zst))?")
_CAPTURE = re.compile(r"(?P<id>.+)_(?P<host>[^_]+)\.dmp(?:\.(?:gz|xz|zst))?")
_LEFT_OUT = re.compile(r".*_(?:ctl|router)\.dmp(?:\.(?:gz|xz|zst))?")
_KINDS = (
    ("stacks", _STACK_LOG),
    ("generators", _GENERATOR_LOG),
    ("captures", _CAPTURE),
    ("extracted", extracted.FILE),
)
"""The lists of a test, and the names of the files in them."""

_VARYING = re.compile(r"(?P<id>.+)_varying_params\.log(?:\.(?:gz|xz|zst))?")

REPEAT = "run"
"""Short name of TEACUP's V_runs, by convention: the number of a repeat."""


@dataclass
class _Test:
    """The files of one test ID."""

    directory: Path
    stacks: list[Path] = field(default_factory=list)
    captures: list[Path] = field(default_factory=list)
    generators: list[Path] = field(default_factory=list)
    extracted: list[Path] = field(default_factory=list)


def is_tree(directory: Path) -> bool:
    """Whether a directory holds files named as TEACUP names them."""
    patterns = (_STACK_LOG, _CAPTURE, extracted.FILE)
    return any(pattern.fullmatch(path.name) for path in _files(directory) for pattern in patterns)


def read(directory: Path, options: Options, skipped: list[str]) -> list[Run]:
    """The runs of a tree in the order of their test IDs; `skipped` gets the captures without TCP data.

    Raises InputError when a file of a run cannot be read, or no run is there.
    """
    tests: dict[str, _Test] = {}
    prefixes: list[str] = []
    for path in _files(directory):
        if found := _VARYING.fullmatch(path.name):
            prefixes.append(found["id"])
        for kind, pattern in _KINDS:
            if (found := pattern.fullmatch(path.name)) and not _LEFT_OUT.fullmatch(path.name):
                test_id = found["id"] or path.parent.resolve().name
                getattr(tests.setdefault(test_id, _Test(path.parent)), kind).append(path)
                break
    runs = []
    for test_id, test in sorted(tests.items(), key=lambda pair: _natural(pair[0])):
        recording = _recording(test_id, test, options, skipped)
        if recording is not None:
            cell = varied(test_id, [*prefixes, test.directory.resolve().name])
            repeat = cell.pop(REPEAT, "0")
            runs.append(Run(recording, cell or {}, int(repeat) if re.fullmatch("[0-9]{1,6}", repeat) else 0))
    if not runs:
        raise InputError(f"{directory}: {NAME} without a log of any flow")
    return runs


def varied(test_id: str, prefixes: Sequence[str] = ()) -> dict[str, str]:
    """Split a test ID into what was varied: `PREFIX_tcp_newreno_del_20` has tcp = newreno and del = 20.

    The prefix is the longest of `prefixes` that fits; without one it ends before the longest run of pairs
    whose first words are letters alone.
    """
    fitting = [prefix for prefix in prefixes if prefix and test_id.startswith(prefix)]
    if fitting:
        words = [word for word in test_id[len(max(fitting, key=len)) :].split("_") if word]
    else:
        words = test_id.split("_")
        start = len(words)
        while start >= 2 and re.fullmatch("[A-Za-z]+", words[start - 2]):
            start -= 2
        words = words[start:]
    return dict(zip(words[::2], words[1::2], strict=False))


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts numbers within a text by their value."""
    return [(int(part[:18]), "") if part.isdigit() else (-1, part) for part in re.split("([0-9]+)", text)]


def _files(directory: Path) -> list[Path]:
    found = []
    for path in directory.rglob("*"):
        if path.is_file():
            found.append(path)
            if len(found) > MAX_FILES:
                raise InputError(f"{directory}: more than {MAX_FILES} files")
    return sorted(found)


def _recording(test_id: str, test: _Test, options: Options, skipped: list[str]) -> Recording | None:
    """Combine what the files of one test ID show. None if none of them shows a flow."""
    stacks = [recording for path in sorted(test.stacks) for recording in _of_stack(path)]
    captures: list[Recording] = []
    warnings: list[str] = []
    if test.captures:
        captures = capture.read_all(sorted(test.captures), options, skipped)
    captures += _extracted(test_id, test, packets=not captures, stacks=not stacks)
    if not stacks and not captures:
        generators = [found for path in sorted(test.generators) for found in base.read(path)]
        return _merge(test_id, generators[:1], [], warnings) if generators else None
    return _merge(test_id, stacks, captures, warnings)


def _extracted(test_id: str, test: _Test, *, packets: bool, stacks: bool) -> list[Recording]:
    """The run of what TEACUP's analysis extracted of packets, and of stacks, where those are not there."""
    known = [found for path in test.extracted if (found := extracted.of(path)) is not None]
    wanted = [found for found in known if (packets if found.kind in extracted.OF_PACKETS else stacks)]
    return [extracted.together(test_id, wanted)] if wanted else []


def _of_stack(path: Path) -> list[Recording]:
    start = base.head(path)
    for module in (siftr, web10g, ttprobe):
        if module.recognises(start):
            try:
                found: list[Recording] = module.read(path)
                return found
            except InputError as error:
                # A host that opened no connection logs none.
                if "without a record" in str(error):
                    return []
                raise
    raise InputError(f"{path}: neither SIFTR nor Web10G nor ttprobe")


def _merge(
    test_id: str, stacks: Sequence[Recording], captures: Sequence[Recording], warnings: Sequence[str]
) -> Recording | None:
    everything = [*stacks, *captures]
    if not everything:
        return None
    seen = {flow for found in captures for flow in found.flows}
    logged: dict[str, Recording] = {}
    for found in stacks:
        for flow in found.flows:
            if not seen or flow in seen:
                logged.setdefault(flow, found)
    if not seen:
        logged = _senders(logged)
    starts = [found.started for found in everything if found.started is not None]
    zero = min(starts) if starts else None
    flows = list(dict.fromkeys([*(flow for found in captures for flow in found.flows), *logged]))
    if not flows:
        return None
    metrics: dict[str, dict[str, float]] = {}
    for flow in flows:
        # What the stack says of itself wins over what packets suggest, and fills less.
        by_capture = next((found.metrics.get(flow, {}) for found in captures if flow in found.flows), {})
        by_stack = logged[flow].metrics.get(flow, {}) if flow in logged else {}
        metrics[flow] = {
            **by_stack,
            **by_capture,
            **{k: v for k, v in by_stack.items() if k.startswith("cwnd")},
        }
    tables: dict[str, list[_Part]] = {}
    for found in everything:
        shift = (
            0
            if zero is None or found.started is None
            else round((found.started - zero).total_seconds() * 1e9)
        )
        for name, rows in found.tables.items():
            # Columns of what was extracted are none of the log's.
            more = name != "tcp" or found.format == extracted.NAME
            wanted = [flow for flow in found.flows if more or logged.get(flow, found) is found]
            if found in stacks:
                wanted = [flow for flow in wanted if logged.get(flow) is found]
            tables.setdefault(name, []).append(_Part(rows, wanted, shift))
    facts: dict[str, str] = {"test_id": test_id}
    for found in everything:
        facts |= dict(found.facts)
    return Recording(
        NAME,
        everything[0].source,
        test_id,
        tuple(flows),
        metrics,
        {name: rows for name, several in tables.items() if (rows := _sorted(several)).num_rows},
        zero,
        facts,
        tuple(dict.fromkeys([*warnings, *(said for found in everything for said in found.warnings)])),
    )


def _senders(logged: Mapping[str, Recording]) -> dict[str, Recording]:
    """Choose the direction that had data in flight, of each connection that both ends logged."""

    def flight(flow: str) -> int:
        part = _Part(logged[flow].tables["tcp"], [flow], 0)
        return max((pc.max(rows["inflight_bytes"]).as_py() or 0 for rows in part.batches()), default=0)

    kept: dict[str, Recording] = {}
    for flow, found in logged.items():
        here, _, there = flow.partition("-")
        turned = f"{there}-{here}"
        if turned not in logged or (flight(flow), flow) > (flight(turned), turned):
            kept[flow] = found
    return kept


@dataclass(frozen=True)
class _Part:
    """Rows of a table from one file."""

    rows: StoredTable
    wanted: Sequence[str]
    """The flows whose rows count."""
    shift_ns: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of these flows, at the times of the whole run."""
        wanted = pa.array(self.wanted, pa.utf8())
        for batch in self.rows.batches():
            kept = batch.filter(pc.is_in(batch["flow"].cast(pa.utf8()), value_set=wanted))
            moved = pc.add(kept["t_ns"], pa.scalar(self.shift_ns, pa.uint64()))
            yield kept.set_column(kept.schema.get_field_index("t_ns"), "t_ns", moved)


def _sorted(several: Sequence[_Part]) -> StoredTable:
    """The rows of all files in order of time."""
    schema = several[0].rows.schema
    sorter, written = Sorter(), TableWriter(schema)
    for part in several:
        for batch in part.batches():
            keys: list[Any] = [batch["t_ns"].cast(pa.int64()), pa.array(np.zeros(batch.num_rows, np.int64))]
            sorter.add(pa.RecordBatch.from_arrays([*batch.columns, *keys], [*schema.names, FIRST, SECOND]))
    for batch in sorter.batches():
        written.add(batch.select(schema.names))
    return written.table()
