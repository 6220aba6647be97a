"""A headless Chromium of the system, which Playwright drives."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from playwright.sync_api import ConsoleMessage, sync_playwright

from patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str | None:
    """Where a Chromium is, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a headless Chromium; records what its console says, its errors and its requests.

    `page` is Playwright's, with mouse and keyboard.
    """

    def __init__(self, program: str) -> None:
        self._driver = sync_playwright().start()
        self._browser = self._driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        self.page = self._browser.new_page()
        self._complaints: list[str] = []
        self._requests: list[str] = []
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self._complaints.append(str(error)))
        self.page.on("request", lambda request: self._requests.append(request.url))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._browser.close()
        self._driver.stop()

    def open(self, url: str) -> None:
        """Load a page and wait until it has loaded; what was recorded of the one before is forgotten."""
        self._complaints.clear()
        self._requests.clear()
        self.page.goto(url)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        return self.page.evaluate(expression)

    def wait(self, expression: str) -> None:
        """Wait until an expression is true; raises Playwright's TimeoutError when that never happens."""
        # A function, as the policy of our pages forbids that text is run.
        self.page.wait_for_function(f"() => {expression}")

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Set the size of the window in CSS pixels; a phone has three device pixels for one."""
        self.page.set_viewport_size({"width": width, "height": height})
        metrics = {"width": width, "height": height, "deviceScaleFactor": 3 if phone else 1, "mobile": phone}
        self.page.context.new_cdp_session(self.page).send("Emulation.setDeviceMetricsOverride", metrics)

    def media(
        self, kind: Literal["screen", "print", "null"] = "screen", scheme: Literal["light", "dark"] = "light"
    ) -> None:
        """Show the page as on a screen or in print, in a colour scheme; "null" leaves it to the browser."""
        self.page.emulate_media(media=kind, color_scheme=scheme)

    def printed(self, file: Path) -> None:
        """Write the page as it prints, as PDF."""
        self.page.pdf(path=file, print_background=False)

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and violations of the page's policy."""
        return list(self._complaints)

    def requests(self) -> list[str]:
        """Every address the page asked for."""
        return list(self._requests)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self._complaints.append(message.text)
