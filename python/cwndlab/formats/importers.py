"""Files and directories of other tools, told apart by what is in them, as a directory of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from cwndlab.errors import InputError
from cwndlab.experiment import extensions
from cwndlab.formats import base, capture, directory
from cwndlab.formats.capture import Options
from cwndlab.formats.directory import Run
from cwndlab.results.resultset import ResultSet

MAX_FILES = 10_000
"""Files of a directory that no package reads as a whole, at most."""

MAX_WARNINGS = 10
"""Warnings of imported files that are printed."""


class Converted(Protocol):
    """A configuration of another tool as an experiment file."""

    experiment: str
    """Text of the file."""
    name: str
    test_ids: list[str]
    """The other tool's name of every run."""
    lab: str | None
    """Text of a lab file of its machines; `None` where the configuration does not say their addresses."""

    def told(self, *, as_json: bool = False) -> list[str]:
        """Outcome of each setting, as lines of text or of JSON."""


class Configurations(Protocol):
    """A module that joins by the entry point `cwndlab.configurations`: makes experiment files."""

    def recognises(self, path: Path) -> bool:
        """Whether a file is a configuration."""

    def convert(self, path: Path, stack: str | None = None, prefix: str | None = None) -> Converted:
        """The configuration as an experiment file; raises InputError for what is refused."""


class Trees(Protocol):
    """A module that joins by the entry point `cwndlab.trees`: reads directories of results."""

    def is_tree(self, directory: Path) -> bool:
        """Whether a directory is one."""

    def read(self, directory: Path, options: Options, skipped: list[str]) -> list[Run]:
        """The runs in it; `skipped` gets a line for each capture without TCP data."""


def configurations(path: Path) -> Configurations | None:
    """Find the module that makes an experiment file of a file. None where the file is no configuration of
    another tool.
    """
    known: Iterable[Configurations] = extensions.load("cwndlab.configurations").values()
    return next((module for module in known if module.recognises(path)), None)


def read(paths: Sequence[Path], options: Options, skipped: list[str] | None = None) -> list[Run]:
    """The runs in files and directories.

    Captures of the same connections make one run. In a directory, files of no known format are passed over,
    but one must be known. Captures without TCP data are left out, which `skipped` tells in lines, unless
    nothing else is there. Raises InputError, one line, for what cannot be read.
    """
    skipped = [] if skipped is None else skipped
    if len(paths) == 1 and paths[0].is_dir():
        known: Iterable[Trees] = extensions.load("cwndlab.trees").values()
        for trees in known:
            if trees.is_tree(paths[0]):
                return trees.read(paths[0], options, skipped)
    captures: list[Path] = []
    others: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = _known(path)
            if not found:
                raise InputError(f"{path}: no file of a known format; {base.all_known()}")
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
    """Gaps in the files of imported results, a line each, `MAX_WARNINGS` at most."""
    found = dict.fromkeys(
        warning for run in results.runs["run_id"] for warning in results.record(run).warnings
    )
    lines = [f"note: {warning}" for warning in found]
    more = len(lines) - MAX_WARNINGS
    return lines if more <= 0 else [*lines[:MAX_WARNINGS], f"note: {more} more, in the records of the runs"]


def lab_of(experiment: Path) -> Path:
    """Path of the lab file for an experiment file that was made of a configuration."""
    return experiment.with_name(f"{experiment.stem}-lab.yaml")


def configuration(
    path: Path, out: Path | None, *, stack: str | None = None, prefix: str | None = None
) -> tuple[Path, Converted]:
    """Write the experiment file of a configuration to `out`, or to NAME.yaml in the current directory,
    and its lab file beside it (`lab_of`), where it says what machines there are.

    Nothing is written unless the whole configuration was read. Raises InputError for what is refused, and
    when the file exists.
    """
    module = configurations(path)
    if module is None:
        raise InputError(f"{path}: no configuration of a known tool")
    converted = module.convert(path, stack, prefix)
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


def _known(path: Path) -> list[Path]:
    """The files of a directory that are of a known format."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.stat().st_size]
    if len(files) > MAX_FILES:
        raise InputError(f"{path}: more than {MAX_FILES} files")
    return [file for file in files if base.known(file)]
