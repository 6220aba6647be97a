"""Runs the experiments of a bundle again, and says of each whether the same came out, byte for byte."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.execution import faults, runner
from cwndlab.execution.executor import Observer
from cwndlab.formats.bundle.archive import check_testbed, expected
from cwndlab.formats.bundle.reader import Entry
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds import GUEST


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of comparing the runs that were made here with those of the bundle."""

    name: str
    runs: int
    alike: int
    """Runs whose every row and counter is the same."""
    first: str | None
    """The first run that differs."""
    files: int
    other: tuple[str, ...]
    """Files that hold the same and have other bytes, or differ as their runs do."""
    versions: tuple[str, ...]
    """Versions of the bundle's makers that are different here, in words."""

    @property
    def same(self) -> bool:
        """Whether every run came out as it was bundled."""
        return self.alike == self.runs

    def __str__(self) -> str:
        """Format one line for a reader, with what may explain a difference."""
        if self.same and not self.other:
            said = f"{self.name}: byte for byte the same: {self.runs} runs, {self.files} files"
        elif self.same:
            said = (
                f"{self.name}: the same rows in all {self.runs} runs; {len(self.other)} of {self.files} files"
                f" have other bytes, the first {self.other[0]} (another version of what writes them)"
            )
        else:
            said = f"{self.name}: {self.runs - self.alike} of {self.runs} runs differ, the first {self.first}"
        return "\n".join([said, *(f"  {text}" for text in self.versions)])


@dataclass(frozen=True, slots=True)
class Trusted:
    """Code that the caller names and trusts, as for `cwndlab run`; that of a bundle is never executed."""

    cc: Sequence[str] = ()
    patch: Path | None = None
    """Patch on the tree of a guest among `cc`."""
    kernel: Path | None = None
    """Folder of the kernel for results of testbed `kernel`."""


def reproduce(
    entry: Entry, out: Path, jobs: int, code: Trusted = Trusted(), observer: Observer | None = None
) -> Outcome:
    """Carry out one experiment of a bundle into `out`, and compare.

    Raises InputError, before anything is run, for results that are damaged, for an experiment that is not
    that of the results, where code is needed that was not given, and for a testbed whose runs are never the
    same twice.
    """
    theirs = ResultSet(entry.results)
    theirs.verify()
    if entry.experiment.read_bytes() != theirs.experiment.encode():
        raise InputError(
            f"{entry.experiment}: is not the experiment that the results in {entry.results} are of; not run"
        )
    testbed = theirs.header.testbed
    check_testbed(entry.name, testbed)
    if testbed == GUEST and code.kernel is None:
        raise InputError(f"{entry.name}: was run on a kernel of Linux; give it with --kernel TREE or NAME")
    if (entry.results / "modules").is_dir() and not code.cc:
        names = ", ".join(sorted(path.name for path in (entry.results / "modules").iterdir()))
        raise InputError(
            f"{entry.name}: was run with code of its author ({names}), which is not executed; read it in the"
            f" archive, below results/{entry.results.name}/modules, and if you trust it give it with --cc or"
            " --guest"
        )
    lab = code.kernel if testbed == GUEST else None
    experiment = faults.load(entry.experiment, (), testbed, lab=lab, cc=code.cc, patch=code.patch)
    ours = runner.run(experiment, testbed=testbed, lab=lab, out=out, jobs=jobs, observer=observer)
    return compare(entry.name, theirs, ours)


def compare(name: str, theirs: ResultSet, ours: ResultSet) -> Outcome:
    """Two directories of the same experiment, run by run and file by file."""
    alike, first = 0, None
    for a, b in zip_longest(theirs.records(), ours.records()):
        if a is not None and b is not None and _gave(a) == _gave(b):
            alike += 1
        elif first is None:
            first = str((a or b).run_id) if a or b else None
    sums, here = expected(theirs.path), expected(ours.path)
    other = tuple(sorted(file for file in sums | here if sums.get(file) != here.get(file)))
    made, makes = theirs.header.versions, ours.header.versions
    versions = tuple(
        f"{what}: bundled {made.get(what, 'none')}, here {makes.get(what, 'none')}"
        for what in sorted(made | makes)
        if made.get(what) != makes.get(what)
    )
    return Outcome(name, max(theirs.runs.height, ours.runs.height), alike, first, len(sums), other, versions)


def _gave(record: object) -> dict[str, object]:
    """Results of a run for comparison: all that its record says but clocks, the machine, and where in a file
    its rows lie.
    """
    apart = ("started", "wall_s", "machine", "versions", "facts", "tables")
    said = {key: value for key, value in vars(record).items() if key not in apart}
    return said | {
        "rows": {name: (table.rows, table.sha256) for name, table in vars(record)["tables"].items()}
    }
