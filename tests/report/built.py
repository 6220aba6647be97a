"""The page as `make web` made it; tests of it are left out where it is not there, unless they must run."""

from __future__ import annotations

import os

import pytest

from cwndlab.errors import CwndlabError
from cwndlab.report.live_page import serve


def need(missing: str | None) -> None:
    """Skip, or fail where `CWNDLAB_REQUIRE_LIVE` asks for every test, if something is missing."""
    if missing is not None and os.environ.get("CWNDLAB_REQUIRE_LIVE") == "1":
        pytest.fail(missing)
    if missing is not None:
        pytest.skip(missing)


def need_page() -> None:
    """The same, unless the page was built."""
    try:
        serve.page_files()
    except CwndlabError as error:
        need(str(error))
