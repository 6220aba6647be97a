"""The directory of results: a dated one that is never overwritten, or the one asked for, held by
one writer.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from cwndlab.errors import InputError, shown
from cwndlab.results import catalogue
from cwndlab.results.checksums import Sums
from cwndlab.results.files import naming

LOCK = ".lock"
"""An empty file that the writer of a results directory holds locked."""


def choose(experiment: str, out: Path | None, resume: bool | None = None, share: str | None = None) -> Path:
    """The directory for the results of an experiment: `out`, or `results/NAME-DATE` below the current one.

    Of a `share` of it, `results/NAME-SHARE`. A new one unless `resume`, then `out` or the newest of that
    experiment. None where the caller knows no resuming. Raises InputError when `out` holds something else, or
    there is nothing to resume.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", experiment).lstrip(".-") or "experiment"
    if share is not None and out is None:
        out = Path("results") / f"{name}-{share}"
    try:
        if out is None:
            return _newest(Path("results"), name) if resume else dated(Path("results"), name)
        out.mkdir(parents=True, exist_ok=True)
        if not resume and is_begun(out):
            resuming = "" if resume is None else ", or --resume to complete these results"
            raise InputError(f"{out}: not empty; give another directory{resuming}")
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror or error}") from None
    return out


def is_begun(directory: Path) -> bool:
    """Whether a directory holds more than what is left where not even a first catalogue could be written."""
    return any(
        not _BEFORE.fullmatch(path.name) and not (path.name == "runs" and _is_empty(path))
        for path in directory.iterdir()
    )


_BEFORE = re.compile(rf"{re.escape(LOCK)}|SHA256SUMS|\.(SHA256SUMS|catalogue\.parquet)\.[0-9]+")


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def dated(base: Path, name: str, *, latest: bool = True) -> Path:
    """A new directory `base/NAME-DATE`, to which `base/latest` points if that is asked for."""
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    for again in ["", *(f".{count}" for count in range(1, 1000))]:
        directory = base / f"{name}-{stamp}{again}"
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        if latest:
            _link(base / "latest", directory.name)
        return directory
    raise InputError(f"{base}: a thousand results of {name} in one second")


def _link(link: Path, target: str) -> None:
    aside = link.with_name(f".{link.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    if link.is_dir() and not link.is_symlink():
        aside.unlink()
        raise InputError(f"{link}: is a directory of its own, so it cannot point at the newest results")
    aside.replace(link)


def _newest(base: Path, name: str) -> Path:
    dated = re.compile(re.escape(name) + r"-\d{4}-\d\d-\d\d-\d{6}(\.\d+)?")
    found = [path for path in base.glob("*") if dated.fullmatch(path.name)]
    if not found:
        raise InputError(f"{base}: no results of {name} to resume; give their directory with -o")
    return max(found)


@contextmanager
def removed_if_refused(directory: Path) -> Iterator[None]:
    """Remove what the block wrote into new results when it raises, so that the next try finds none begun.

    Results that were begun before stay as they are.
    """
    begun = is_begun(directory)
    try:
        yield
    except BaseException:
        if not begun:
            for path in directory.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            with suppress(OSError):  # where it is a link to a directory
                directory.rmdir()
            _unlink(directory)
        raise


def _unlink(directory: Path) -> None:
    """Let `latest` point at the newest results that are left where it pointed at a directory that is gone."""
    link = directory.with_name("latest")
    if link.is_symlink() and not link.exists():
        left = [path for path in directory.parent.iterdir() if path.is_dir() and _DATED.search(path.name)]
        link.unlink()
        if left:
            _link(link, max(left, key=lambda path: path.stat().st_mtime).name)


_DATED = re.compile(r"-\d{4}-\d\d-\d\d-\d{6}(\.\d+)?$")


@contextmanager
def replacing(directory: Path) -> Iterator[Path]:
    """A new directory whose content takes the place of results when the block ends well; else it is removed.

    The results that are there stay until then, and nobody else writes into them meanwhile. Raises InputError
    for what is no directory of results, and for one with files in it that cwndlab did not write.
    """
    _check_results(directory)
    aside, old = (directory.with_name(f".{directory.name}.{word}.{os.getpid()}") for word in ("new", "old"))
    with naming(directory), locked(directory):
        aside.mkdir()
        try:
            yield aside
            # Between the two nothing has the name; whenever the machine stops, both are whole.
            directory.rename(old)
            try:
                aside.rename(directory)
            except OSError:
                old.rename(directory)
                raise
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    shutil.rmtree(old)


_OURS = re.compile(r"runs|modules|figures|report\.html|.*\.(png|svg|pdf|data\.csv)")
"""Names of files that commands put beside those that SHA256SUMS lists."""


def _check_results(directory: Path) -> None:
    if directory.is_symlink():
        raise InputError(f"{directory}: is a symlink; --force needs the directory itself")
    if not (directory / catalogue.FILE).is_file():
        raise InputError(f"{directory}: no directory of results, which alone --force replaces")
    listed = Sums(directory).names
    for path in sorted(directory.iterdir()):
        if not (path.name in listed or _BEFORE.fullmatch(path.name) or _OURS.fullmatch(path.name)):
            problem = f"holds {shown(path.name)}, which cwndlab did not write"
            raise InputError(f"{directory}: {problem}; move it away, or give another directory")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a results directory, so that two runs never write into one; released whenever the process ends."""
    with naming(directory / LOCK):
        handle = os.open(directory / LOCK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    with os.fdopen(handle, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{directory}: another cwndlab is writing there") from None
        yield
