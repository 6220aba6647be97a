"""The identity of this cwndlab: its version, the commit, and a hash of the package's own files."""

import functools
import hashlib
import os
import subprocess
from importlib.metadata import version as version_of
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

_KINDS = (".py", ".yaml")
"""Files that say what is planned, run and counted; the engine tells its own sources."""


@functools.cache
def version() -> str:
    """Version with a hash of the code, such as `0.2.0 code 3f2a91c0d4e5`: two trees that differ in a .py or
    .yaml of the package differ in it.

    The engine says the same of its sources (`cwndlab._native.version`).
    """
    return f"{version_of('cwndlab')} code {_hash(PACKAGE)[:12]}"


def release() -> str:
    """The version as people are told it: `0.2.0`, or between releases `0.2.0 (commit 7d4bc68fd2ab)`."""
    made_from = commit()
    return version_of("cwndlab") + (f" (commit {made_from})" if made_from else "")


@functools.cache
def commit() -> str:
    """Git's name of this commit. Empty at the tag of the version, and where it cannot be known.

    It ends with `-dirty` where files differ. A checkout is asked; a wheel was told when it was built.
    """
    root = PACKAGE.parents[1]
    if (root / ".git").exists() and (root / "pyproject.toml").exists():
        found = _described(root)
    else:
        try:
            found = (PACKAGE / "commit.txt").read_text(encoding="ascii").strip()
        except OSError:
            return ""
    return "" if found == f"v{version_of('cwndlab')}" else found


def _described(checkout: Path) -> str:
    """Describe a checkout as packaging/wheels.sh does. Empty without Git."""
    # What a hook of Git sets is about another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    describe = ("describe", "--always", "--tags", "--dirty", "--abbrev=12", "--match", "v[0-9]*")
    try:
        asked = subprocess.run(
            ["git", "-C", checkout, *describe],
            env=environment | {"GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return asked.stdout.strip()


def _hash(directory: Path) -> str:
    digest = hashlib.sha256()
    files = (path for path in directory.rglob("*") if path.suffix in _KINDS and path.name[0] != ".")
    named = sorted((file.relative_to(directory).as_posix(), file) for file in files)
    for name, file in named:
        if name.startswith("pages/"):  # documents, and in a checkout a link to those
            continue
        content = file.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
