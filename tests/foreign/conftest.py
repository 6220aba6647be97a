"""Fixtures of tests of congestion controls from outside: a compiler, and a cache apart from the user's."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _compiler_and_cache(compiled_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(compiled_once))
