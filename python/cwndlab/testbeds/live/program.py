"""The agent of cwndlab as a program for a kind of machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NAME = "cwndlab-agent"
"""Name of the agent in the run's directory at a machine."""
BUILT = Path(__file__).parents[4] / "target"
"""Folder in which `make agent` puts the agent, in a checkout."""
TARGETS = {"linux-x86_64": "x86_64-unknown-linux-musl", "linux-aarch64": "aarch64-unknown-linux-musl"}
"""Rust's names of the systems and processors that `make agent` builds it for."""


def find(kind: str, described: Mapping[str, str] | None) -> Path | None:
    """The agent's program for a kind of machine, such as `linux-x86_64`. None where there is none."""
    if described is not None:
        return Path(described[kind]).expanduser() if kind in described else None
    built = BUILT / TARGETS[kind] / "release" / NAME if kind in TARGETS else None
    return built if built is not None and built.is_file() else None
