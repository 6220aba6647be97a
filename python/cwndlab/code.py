"""Which cwndlab this is: its version, and a hash of the package's own files."""

import functools
import hashlib
from importlib.metadata import version as version_of
from pathlib import Path

PACKAGE = Path(__file__).parent

_KINDS = (".py", ".yaml")
"""Files that say what is planned, run and counted; the engine tells its own sources."""


@functools.cache
def version() -> str:
    """Such as `0.1.0 code 3f2a91c0d4e5`: two trees that differ in a .py or .yaml of the package differ in it.

    The engine says the same of its sources (`cwndlab._native.version`).
    """
    return f"{version_of('cwndlab')} code {_hash(PACKAGE)[:12]}"


def _hash(directory: Path) -> str:
    digest = hashlib.sha256()
    files = (path for path in directory.rglob("*") if path.suffix in _KINDS and path.name[0] != ".")
    for name, file in sorted((file.relative_to(directory).as_posix(), file) for file in files):
        content = file.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
