"""Dependencies of the crates: what may stand on what (docs/architecture.md, "The engine")."""

import tomllib
from pathlib import Path

import pytest

CRATES = Path(__file__).resolve().parents[2] / "crates"

SYSTEM = {"getrandom", "libc", "socket2"}
"""Packages that reach the operating system."""


def below(crate: str, crates: Path = CRATES) -> set[str]:
    """Crates and packages that a crate needs, directly or through others of the workspace, on any system."""
    found: set[str] = set()
    left = [crate]
    while left:
        manifest = crates / left.pop() / "Cargo.toml"
        if manifest.is_file():
            described = tomllib.loads(manifest.read_text())
            tables = [described, *described.get("target", {}).values()]
            needed = {name for table in tables for name in table.get("dependencies", {})} - found
            found |= needed
            left += needed
    return found


@pytest.mark.parametrize(
    "crate", ["units", "wire", "params", "measure", "path", "apps", "tcp", "host", "contract", "sim"]
)
def test_the_engine_reaches_no_operating_system(crate: str) -> None:
    assert (CRATES / crate).is_dir()
    assert below(crate) & SYSTEM == set()


def test_the_bottom_crate_needs_nothing() -> None:
    assert below("units") == set()


def test_what_testbeds_share_needs_no_model() -> None:
    assert below("contract") & {"tcp", "host", "sim", "loadlatency", "live"} == set()


def test_needs_of_needs_are_seen(tmp_path: Path) -> None:
    for name, text in {
        "top": "[dependencies]\nmiddle.workspace = true\n",
        "middle": "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "Cargo.toml").write_text(text)
    assert below("top", tmp_path) == {"middle", "libc"}
