"""Files and directories of other tools, told apart by what is in them, as a directory of results."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.formats import base, capture, directory, teacup_config, teacup_tree
from cwndlab.formats.capture import Options
from cwndlab.formats.directory import Run
from cwndlab.formats.teacup_config import Converted
from cwndlab.results.resultset import ResultSet

MAX_FILES = 10_000
"""Files of a directory that is no TEACUP tree, at most."""

MAX_WARNINGS = 10
"""Warnings of imported files that are printed."""


def is_configuration(path: Path) -> bool:
    """Whether a file is a TEACUP configuration: Python that sets TPCONF_ names."""
    if not path.is_file() or path.suffix != ".py":
        return False
    with path.open("rb") as file:
        return b"TPCONF_" in file.read(1 << 20)


def read(paths: Sequence[Path], options: Options, skipped: list[str] | None = None) -> list[Run]:
    """The runs in files and directories.

    Captures of the same connections make one run. In a directory, files of no known format are passed over,
    but one must be known. Captures without TCP data are left out, which `skipped` tells in lines, unless
    nothing else is there. Raises InputError, one line, for what cannot be read.
    """
    skipped = [] if skipped is None else skipped
    if len(paths) == 1 and paths[0].is_dir() and teacup_tree.is_tree(paths[0]):
        return teacup_tree.read(paths[0], options, skipped)
    captures: list[Path] = []
    others: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = _known(path)
            if not found:
                raise InputError(f"{path}: no file of a known format; known are {', '.join(base.names())}")
        else:
            found = [path]
        for file in found:
            (captures if capture.recognises(base.head(file)) else others).append(file)
    runs = [Run(recording) for path in others for recording in base.read(path)]
    if captures:
        runs += [Run(recording) for recording in capture.read_all(captures, options, skipped)]
    if not runs:
        raise InputError(skipped[0] if len(skipped) == 1 else f"{skipped[0]}, nor in the others")
    return runs


def results(
    paths: Sequence[Path], options: Options, out: Path | None = None, skipped: list[str] | None = None
) -> ResultSet:
    """Import files and directories into `out`, or into `results/NAME-DATE`; as `read` raises, and skips."""
    return directory.write(read(paths, options, skipped), directory.name_of(paths), out)


def warnings(results: ResultSet) -> list[str]:
    """What the files of imported results do not say, a line each, `MAX_WARNINGS` at most."""
    found = dict.fromkeys(
        warning for run in results.runs["run_id"] for warning in results.record(run).warnings
    )
    lines = [f"note: {warning}" for warning in found]
    more = len(lines) - MAX_WARNINGS
    return lines if more <= 0 else [*lines[:MAX_WARNINGS], f"note: {more} more, in the records of the runs"]


def lab_of(experiment: Path) -> Path:
    """Where the lab file of an experiment file goes that was made of a configuration."""
    return experiment.with_name(f"{experiment.stem}-lab.yaml")


def configuration(
    path: Path, out: Path | None, *, stack: str | None = None, prefix: str | None = None
) -> tuple[Path, Converted]:
    """Write the experiment file of a TEACUP configuration to `out`, or to NAME.yaml in the current directory,
    and its lab file beside it (`lab_of`), where it says what machines there are.

    Nothing is written unless the whole configuration was read. Raises InputError for what is refused, and
    when the file exists.
    """
    converted = teacup_config.convert(path, stack, prefix)
    target = out if out is not None else Path(f"{converted.name}.yaml")
    files = {target: converted.experiment}
    if converted.lab is not None:
        files[lab_of(target)] = converted.lab
    for file in files:
        if file.exists():
            raise InputError(f"{file}: is there already; give another name with -o")
    for file, text in files.items():
        try:
            with file.open("x", encoding="utf-8") as made:
                made.write(text)
        except OSError as error:
            raise InputError(f"{file}: {error.strerror or error}") from None
    return target, converted


def findings(converted: Converted, *, json: bool = False) -> list[str]:
    """What became of each setting, as lines of text or of JSON."""
    if not json:
        return teacup_config.as_text_list(converted.findings)
    return [
        dumps({"kind": found.kind, "file": found.place.file, "line": found.place.line, "text": found.text})
        for found in converted.findings
    ]


def _known(path: Path) -> list[Path]:
    """The files of a directory that are of a known format."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.stat().st_size]
    if len(files) > MAX_FILES:
        raise InputError(f"{path}: more than {MAX_FILES} files")
    return [file for file in files if base.known(file)]
