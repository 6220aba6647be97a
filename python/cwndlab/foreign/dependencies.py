"""The inputs of a compilation, as the compiler says them: sources, headers and whatever else they include."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cwndlab.errors import InputError

MAX_BYTES = 16 << 20
"""Size in bytes of all files of one module together, at most."""

PRIVATE = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES")
"""Variables that would have the compiler read or write what no option names."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Files that were read, and the option that names them, without the folders of this machine."""

    request: str
    """Text after `NAME=` in `--cc`, with paths as in `files`."""
    files: tuple[tuple[str, bytes], ...]
    """Path and content of each; paths are below the folder they share, or below the name of their folder."""

    def written(self, folder: Path) -> str:
        """The option with paths in `folder`, where the files are put."""
        for name, data in self.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        words = []
        for word in self.request.split(","):
            key, given, value = word.partition("=")
            if not given:
                words.append(str(folder / word))
            else:
                words.append(f"include={folder / value}" if key == "include" else word)
        return ",".join(words)


def environment() -> dict[str, str]:
    """The compiler's."""
    return {name: value for name, value in os.environ.items() if name not in PRIVATE} | {"LC_ALL": "C"}


def read(files: Sequence[Path], folders: Sequence[Path], told: Sequence[Path], abi: str) -> Inputs:
    """The content of what the compiler `told` that it reads for `files` with headers from `folders`.

    Raises InputError where that is too much.
    """
    sources, includes = ([_absolute(path) for path in paths] for paths in (files, folders))
    found = list(dict.fromkeys((*sources, *map(_absolute, told))))
    names = _names(found, [*(file.parent for file in sources), *includes])
    content: dict[str, bytes] = {}
    room = MAX_BYTES
    for path in found:
        with path.open("rb") as file:
            data = file.read(room + 1)
        room -= len(data)
        if room < 0:
            raise InputError(f"{path}: the module's sources are larger than {MAX_BYTES >> 20} MiB together")
        content[names[path]] = data
    words = [
        *(names[file] for file in sources),
        *(f"include={place}" for folder in includes if (place := _place(folder, names)) is not None),
        f"abi={abi}",
    ]
    return Inputs(",".join(words), tuple(content.items()))


def dependencies(rules: str) -> list[Path]:
    """The files in what `cc -M` prints: rules of make."""
    found: list[Path] = []
    for rule in rules.replace("\\\n", " ").splitlines():
        _, _, after = rule.partition(": ")
        for word in re.findall(r"(?:\\.|\S)+", after):
            found.append(Path(re.sub(r"\\([\s#\\:])", r"\1", word).replace("$$", "$")))
    return found


@functools.cache
def system_folders(compiler: str) -> tuple[Path, ...]:
    """Folders in which a compiler finds what belongs to it and the system, and is known by its version."""
    command = [compiler, "-E", "-v", "-x", "c", os.devnull]
    told = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    _, _, after = told.stderr.partition("#include <...> search starts here:\n")
    listed = after.partition("End of search list")[0].splitlines()
    return tuple(Path(os.path.normpath(line.strip())) for line in listed if "/local/" not in line)


def _names(found: Sequence[Path], folders: Sequence[Path]) -> dict[Path, str]:
    """A name for each file: its path below one of the folders, after that folder's name if there are several.

    A folder grows until it holds what is read from beside it, such as `#include "../new.h"`.
    """
    bases = _outermost(folders)
    for path in found:
        if not any(path.is_relative_to(base) for base in bases):
            near = max(bases, key=lambda base: len(_common(base, path).parts))
            bases = _outermost([_common(near, path), *(base for base in bases if base != near)])
    used = [base for base in bases if any(path.is_relative_to(base) for path in found)]
    labels = _labels(used) if len(used) > 1 else [""]
    return {
        path: (Path(label) / path.relative_to(base)).as_posix()
        for path in found
        for base, label in zip(used, labels, strict=True)
        if path.is_relative_to(base)
    }


def _outermost(folders: Sequence[Path]) -> list[Path]:
    """Folders that are in no other one."""
    distinct = list(dict.fromkeys(folders))
    return [
        one for one in distinct if not any(one != other and one.is_relative_to(other) for other in distinct)
    ]


def _common(folder: Path, path: Path) -> Path:
    return Path(os.path.commonpath([folder, path.parent]))


def _labels(bases: Sequence[Path]) -> Iterator[str] | list[str]:
    taken: dict[str, int] = {}
    labels = []
    for base in bases:
        number = taken[base.name] = taken.get(base.name, 0) + 1
        labels.append(base.name if number == 1 else f"{base.name}-{number}")
    return labels


def _place(folder: Path, names: Mapping[Path, str]) -> str | None:
    """Name of a folder among the names of files. None where nothing was read from it."""
    for path, name in names.items():
        if path.is_relative_to(folder):
            below = path.relative_to(folder).parts
            return Path(*Path(name).parts[: -len(below)]).as_posix()
    return None


def _absolute(path: Path) -> Path:
    """Return the path as it is spelled: files beside a link are not those beside its target."""
    return Path(os.path.normpath(path.absolute()))
