"""Congestion controls from outside on their way to another machine: what `--cc` named, as text and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.foreign import Module, building, plain, sources


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one `--cc` named."""

    request: str
    """The option, with paths in the folder that `open_in` fills."""
    files: tuple[tuple[str, bytes], ...]
    """Each file's path in that folder, and what is in it."""
    sha256: str
    """What the modules have to be there: their own hash, which knows the compiler."""


def pack(modules: Sequence[Module]) -> tuple[Parcel, ...]:
    """The parcels of modules, one for each `--cc`; raises InputError where a file cannot be read again."""
    requests = {module.request: module for module in modules}
    try:
        return tuple(_packed(module) for module in requests.values())
    except OSError as error:
        raise InputError(f"--cc: {error.filename}: {error.strerror}") from None


def open_in(parcels: Sequence[Parcel], folder: Path) -> tuple[Module, ...]:
    """The modules made anew in a folder; raises InputError where one is not what was sent."""
    made: list[Module] = []
    for number, parcel in enumerate(parcels):
        place = folder / str(number)
        for name, data in parcel.files:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
        own = sources.build(_inside(parcel.request, place))
        for module in own:
            if module.sha256 != parcel.sha256:
                raise InputError(f"--cc {module.name}: {module.compiler} makes something else of it here")
        made += own
    return tuple(made)


def _packed(module: Module) -> Parcel:
    name, _, source = module.request.partition("=")
    found = plain.CLASS.fullmatch(source)
    if plain.is_plain(source):
        file = Path(found["file"] if found else source)
        inside = f"0/{file.name}"
        request = f"{name}={inside}:{found['name']}" if found else f"{name}={inside}"
        return Parcel(request, ((inside, file.read_bytes()),), module.sha256)
    request_ = building.Request.of(module.request)
    folders = list(dict.fromkeys((*request_.folders, *(file.parent for file in request_.files))))
    files = {f"{folders.index(file.parent)}/{file.name}": file.read_bytes() for file in request_.files}
    for number, folder in enumerate(folders):
        files |= {f"{number}/{file.name}": file.read_bytes() for file in sorted(folder.glob("*.h"))}
    words = [
        *(f"{folders.index(file.parent)}/{file.name}" for file in request_.files),
        *(f"include={folders.index(folder)}" for folder in request_.folders),
        f"abi={module.abi}",
    ]
    return Parcel(f"{name}={','.join(words)}", tuple(files.items()), module.sha256)


def _inside(request: str, folder: Path) -> str:
    """The request with its paths in `folder`."""
    name, _, source = request.partition("=")
    words = []
    for word in source.split(","):
        if word.startswith("include="):
            words.append(f"include={folder / word.removeprefix('include=')}")
        else:
            words.append(word if word.startswith("abi=") else str(folder / word))
    return f"{name}={','.join(words)}"
