"""Fidelity: the models against recordings of the systems they model, recording by recording."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from importlib.resources import files
from pathlib import Path

import yaml

from cwndlab.errors import CwndlabError, InputError
from cwndlab.execution.executor import Observer
from cwndlab.execution.executors import processors
from tools.truth.fidelity import kernel
from tools.truth.fidelity.compare import Row, compare, draws_of
from tools.truth.fidelity.measure import measure
from tools.truth.fidelity.recordings import Metrics, Recording, Run, discover
from tools.truth.fidelity.scenario import covered
from tools.truth.fidelity.vectors import REPOSITORY

__all__ = ["ABSENT", "GROUNDTRUTH", "NOTES", "REPOSITORY", "evaluate", "found", "notes", "run"]

GROUNDTRUTH = REPOSITORY / "groundtruth"
"""The recordings of the clone."""

ABSENT = "no such stack or congestion control in the catalogue"
"""Why a recording of something that is not modelled is not compared."""

NOTES = "notes.yaml"
"""What is known of the cause of rows outside their bounds, by row."""


def run(directory: Path, observer: Observer | None = None) -> list[Row]:
    """Compare everything recorded in `directory`, on all processors; rows in the table's order.

    Raises InputError where the directory or a recording in it cannot be used.
    """
    return evaluate(found(directory), observer)


def found(directory: Path) -> list[Recording]:
    """Every recording of a directory, in the table's order; raises InputError as `run`."""
    every = [*discover(directory), *kernel.recordings(directory)]
    if not every:
        raise InputError(
            f"{directory}: no recordings; expected freebsd/, linux-6.18/ or {kernel.FOLDER}/ in it"
        )
    return every


def evaluate(recordings: Sequence[Recording], observer: Observer | None = None) -> list[Row]:
    """Compare these recordings. A row whose run fails says why; it counts as outside its bounds."""
    known = notes()
    rows: dict[str, Row] = {}
    tasks = [
        (recording, draw)
        for recording in recordings
        if _runs(recording)
        for draw in range(draws_of(recording))
    ]
    # The longest first, so that no processor is left with one of them at the end.
    tasks.sort(key=lambda task: -_work(task[0]))
    if observer is not None:
        observer.start(len(tasks), sum(_work(recording) for recording, _ in tasks))
    results: dict[str, dict[int, Metrics]] = {recording.key: {} for recording in recordings}
    # The engine runs with the interpreter's lock released: threads are enough to use every processor.
    pool = ThreadPoolExecutor(processors())
    try:
        futures: dict[Future[Metrics], tuple[Recording, int]] = {
            pool.submit(measure, recording, draw): (recording, draw) for recording, draw in tasks
        }
        for future in as_completed(futures):
            recording, draw = futures[future]
            try:
                results[recording.key][draw] = future.result()
            except (CwndlabError, ValueError) as error:
                rows[recording.key] = Row(recording, (), known.get(recording.key), str(error))
            except BaseException as error:
                # A panic of the engine arrives as an exception that no `except Exception` sees.
                if type(error).__name__ != "PanicException":
                    raise
                line = f"the engine failed: {error}"
                rows[recording.key] = Row(recording, (), known.get(recording.key), line)
            if observer is not None:
                observer.advance(1, _work(recording))
    finally:
        pool.shutdown(cancel_futures=True)
    for recording in recordings:
        if not _runs(recording):
            note = known.get(recording.key)
            rows[recording.key] = Row(recording, (), note, ABSENT)
        elif recording.key not in rows:
            draws = [metrics for _, metrics in sorted(results[recording.key].items())]
            rows[recording.key] = compare(recording, draws, known.get(recording.key))
    return [rows[recording.key] for recording in recordings]


def notes() -> Mapping[str, str]:
    """What is known of causes, by row; raises InputError where the file is not a mapping of text to text."""
    read = yaml.safe_load(files(__package__).joinpath(NOTES).read_text(encoding="utf-8")) or {}
    if not isinstance(read, dict) or not all(isinstance(text, str) for text in (*read, *read.values())):
        raise InputError(f"{NOTES}: expected a text for each row's key")
    return read


def _runs(recording: Recording) -> bool:
    return not isinstance(recording.what, Run) or covered(recording.what)


def _work(recording: Recording) -> int:
    """Packets, roughly."""
    if not isinstance(recording.what, Run):
        return 1
    goodput = recording.metrics.get("goodput", recording.what.rate_bps / 1e6)
    return int(goodput * 1e6 * recording.what.duration_s / 12_000) + 1
