"""The kernel that `--kernel` means: a source tree, a kernel as a program, or the name of one that
was built.
"""

from __future__ import annotations

from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.testbeds.kernel import build, store
from cwndlab.testbeds.kernel.build import Progress
from cwndlab.testbeds.kernel.store import Kernel


def kernel(text: str, patch: Path | None, hz: int | None, progress: Progress, *, jobs: int) -> Kernel:
    """The kernel of a source tree, which is built unless it was, with a patch on top; a kernel as a program;
    or that of a name. Raises InputError."""
    place = Path(text)
    if place.is_dir() and not (place / store.ABOUT).is_file():
        return build.build(place, hz or build.HZ, patch, progress, jobs=jobs)[0]
    if patch is not None:
        raise InputError(f"--patch: {text} is no source tree, on which alone a patch can be put")
    found = build.adopt(place) if place.is_file() else store.find(place.name)
    if hz is not None and found.hz != hz:
        raise InputError(f"--hz {hz}: kernel {found.name} was built with {found.hz}")
    return found
