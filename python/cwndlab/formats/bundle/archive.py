"""Makes a bundle of results: equal results of one environment give equal bytes."""

import gzip
import io
import json
import platform
import re
import shlex
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import requires
from importlib.metadata import version as version_of
from pathlib import Path

from cwndlab import _native, testbeds
from cwndlab.errors import InputError
from cwndlab.execution import faults
from cwndlab.experiment.scenario import planner
from cwndlab.formats.bundle import CLOCKED, FORMAT, crate
from cwndlab.formats.bundle.crate import Claims
from cwndlab.results import checksums, files, software
from cwndlab.results.resultset import ResultSet

LEFT_OUT = (".lock", "report.html")
"""Files of a results directory that are left out: they say nothing, or `cwndlab report` makes them again."""


def make(
    directories: Sequence[Path], out: Path, beside: Sequence[Path] = (), claims: Claims | None = None
) -> list[str]:
    """Write the bundle of some results to `out`; returns its files.

    `beside` are files that the experiments name, such as traces. Raises InputError, one line, for results
    that are damaged, incomplete, or of a kernel, and for an experiment that cannot be run from what is there.
    """
    contents: dict[str, bytes] = {}
    entries: list[dict[str, object]] = []
    made: list[crate.Made] = []
    for directory in directories:
        results = ResultSet(directory)
        _fit(results)
        name = _unused(results.header.experiment, [str(entry["name"]) for entry in entries])
        entries.append({"name": name, "versions": results.header.versions, "runs": results.runs.height})
        made.append(_made(name, results))
        contents |= {f"results/{name}/{path}": data for path, data in _files(results.path)}
        contents[f"experiments/{name}/experiment.yaml"] = results.experiment.encode()
        contents |= {f"experiments/{name}/{file.name}": _read(file) for file in beside}
        _loads(contents, name, results)
        contents[f"expected/{name}.sha256"] = _listed(expected(results.path))
    contents["bundle.json"] = _json({"format": FORMAT, "results": entries, "environment": _environment()})
    contents["requirements.txt"] = "".join(f"{line}\n" for line in _packages()).encode()
    contents["reproduce.sh"] = _script([str(entry["name"]) for entry in entries]).encode()
    contents["README.txt"] = _README.encode()
    # The list of digests has that of the metadata: its size comes later.
    sizes = {name: len(data) for name, data in sorted(contents.items())} | {checksums.FILE: None}
    contents[crate.FILE] = _json(crate.metadata(sizes, made, claims or Claims()))
    contents[checksums.FILE] = _listed({name: checksums.sha256(data) for name, data in contents.items()})
    files.save(out, _archive(out.name.partition(".")[0], contents))
    return sorted(contents)


def expected(directory: Path) -> dict[str, str]:
    """The digests of what every machine writes: all files of results but clocks, and who wrote them when."""
    tables = (
        f"runs/{path.relative_to(directory / 'runs').as_posix()}"
        for path in sorted((directory / "runs").glob("*/*"))
        if path.name not in (CLOCKED, checksums.FILE)
    )
    return {name: checksums.digest(directory / name) for name in ["experiment.yaml", "summary.csv", *tables]}


def _made(name: str, results: ResultSet) -> crate.Made:
    started = [brief.started for brief in results.briefs]
    header = results.header
    return crate.Made(name, header.experiment, len(started), min(started), max(started), header.versions)


def check_testbed(what: str, testbed: str) -> None:
    """Raise InputError, which begins with `what`, for a testbed whose runs are never the same twice."""
    if testbed not in (testbeds.MODEL, testbeds.GUEST):
        alike = f"only {testbeds.MODEL} and {testbeds.GUEST} give the same again"
        raise InputError(f"{what}: made on testbed {testbed}; {alike}")


def _fit(results: ResultSet) -> None:
    """Refuse results that another machine could not get again."""
    check_testbed(str(results.path), results.header.testbed)
    if not results.complete:
        raise InputError(f"{results.path}: runs are missing or failed; --resume completes them")
    results.verify()


def _loads(contents: Mapping[str, bytes], name: str, results: ResultSet) -> None:
    """Refuse an experiment that cannot be read from the bundle, as a file that it names is not there."""
    if (results.path / "modules").is_dir():
        return  # their text is among the results; whoever runs it again says so with --cc
    with tempfile.TemporaryDirectory() as folder:
        for path, data in contents.items():
            if path.startswith(f"experiments/{name}/"):
                (Path(folder) / path.rpartition("/")[2]).write_bytes(data)
        try:
            planner.make(faults.load(Path(folder) / "experiment.yaml"))
        except InputError as error:
            problem = str(error).replace(f"{folder}/", "")
            raise InputError(f"{results.path}: {problem} (files that it names: --with FILE)") from None


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_symlink():
            raise InputError(f"{path}: is a symlink; a bundle holds files")
        if path.is_file() and name not in LEFT_OUT:
            yield name, _read(path)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None


def _unused(experiment: str, taken: Sequence[str]) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", experiment) or "experiment"
    return next(
        again for n in range(1, len(taken) + 2) if (again := name if n == 1 else f"{name}-{n}") not in taken
    )


def _environment() -> dict[str, str]:
    return {
        "cwndlab": software.version(),
        "commit": software.commit(),
        "engine": _native.version(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
    }


def _packages() -> list[str]:
    """Packages that cwndlab needs to run, each pinned to the version that is installed here."""
    needed = [
        re.split(r"[^A-Za-z0-9._-]", text)[0] for text in requires("cwndlab") or () if "extra ==" not in text
    ]
    found = []
    for name in ["cwndlab", *sorted(needed)]:
        try:
            found.append(f"{name}=={version_of(name)}")
        except ModuleNotFoundError:  # of another system
            continue
    return found


def _listed(digests: Mapping[str, str]) -> bytes:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())).encode()


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _script(names: Sequence[str]) -> str:
    lines = [
        "#!/bin/sh",
        "# Checks this bundle, runs its experiments again, and checks that the same bytes come out.",
        "# `cwndlab data reproduce` does the same and says more; it does not execute this script.",
        "set -eu",
        'cd "$(dirname "$0")"',
        "sha256sum --check --quiet SHA256SUMS",
    ]
    for name in map(shlex.quote, names):
        lines += [
            f"cwndlab run experiments/{name}/experiment.yaml -o again/{name} --no-report",
            f"(cd again/{name} && sha256sum --check --quiet ../../expected/{name}.sha256)",
            f"echo {name}: byte for byte the same",
        ]
    return "\n".join(lines) + "\n"


_README = """\
Results of TCP experiments, made by cwndlab, with all it takes to get them again.

  bundle.json     what is in here, and what made it
  ro-crate-metadata.json
                  the same for archives of research data (RO-Crate 1.1)
  experiments/    the experiments, with the files that they name
  results/        what came out (`cwndlab show`, `cwndlab report`)
  expected/       the SHA-256 sums of what every machine gets
  requirements.txt, reproduce.sh, SHA256SUMS

To run it all again and compare: `cwndlab data reproduce BUNDLE`, with the archive this is from,
or `sh reproduce.sh` in here. Both need the cwndlab that bundle.json names.
"""


def _archive(top: str, contents: Mapping[str, bytes]) -> bytes:
    """A .tar.gz with nothing in it that differs from one making to the next: no times, no owners."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in sorted(contents.items()):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode = len(data), 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
