"""The bill of materials names what is compiled into a wheel, as Cargo.lock pins it."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def printed(*targets: str, **environment: str) -> str:
    if shutil.which("cargo") is None:
        pytest.skip("no cargo on PATH")
    return subprocess.run(
        [sys.executable, ROOT / "packaging" / "sbom.py", *targets],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_every_crate_is_named_once_as_it_is_pinned() -> None:
    bill: dict[str, Any] = json.loads(printed())
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    pinned = {(each["name"], each["version"]): each.get("checksum") for each in lock}
    found = {(each["name"], each["version"]): each for each in bill["components"]}
    assert len(found) == len(bill["components"])
    assert all(each["hashes"][0]["content"] == pinned[name] for name, each in found.items())
    names = {name for name, _ in found}
    # Python's extension, the live lab's engine and QUIC are in it; what only tests and benchmarks use is not.
    assert {"pyo3", "wasm-bindgen", "quinn-proto"} <= names
    assert not {"criterion", "proptest"} & names and {"criterion", "proptest"} <= {name for name, _ in pinned}
    refs = {bill["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in bill["components"])}
    assert {each["ref"] for each in bill["dependencies"]} == refs
    assert {below for each in bill["dependencies"] for below in each["dependsOn"]} == refs - {
        bill["metadata"]["component"]["bom-ref"]
    }


def test_the_time_is_the_commits() -> None:
    assert "timestamp" not in json.loads(printed(SOURCE_DATE_EPOCH=""))["metadata"]
    first = printed(SOURCE_DATE_EPOCH="1790000000")
    assert json.loads(first)["metadata"]["timestamp"] == "2026-09-21T14:13:20+00:00"
    assert printed(SOURCE_DATE_EPOCH="1790000000") == first
