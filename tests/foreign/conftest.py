"""What tests of congestion controls from outside share: a compiler, and a cache of their own."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _compiler_and_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
