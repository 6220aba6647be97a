"""Needs of a test: where the machine lacks one, the test is skipped, or fails if all must run."""

from __future__ import annotations

import os

import pytest

from cwndlab.errors import CwndlabError


def need(missing: str | None) -> None:
    """Skip, or fail where `CWNDLAB_REQUIRE_LIVE` asks for every test, if something is missing."""
    if missing is not None and os.environ.get("CWNDLAB_REQUIRE_LIVE") == "1":
        pytest.fail(f"{missing} (and CWNDLAB_REQUIRE_LIVE=1 asks for it)")
    if missing is not None:
        pytest.skip(missing)


def need_page() -> None:
    """Need the page as `make web` makes it."""
    # It brings the server, which most tests do without.
    from cwndlab.report.live_page import serve

    try:
        serve.page_files()
    except CwndlabError as error:
        need(str(error))
