"""Makes the pictures that no command of a page makes: the report in a browser, and a recorded terminal.

`python docs/pictures.py` writes docs/pictures/report.png (by Chromium) and docs/pictures/terminal.svg.
"""

import html
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).resolve().parent / "pictures"
COMMANDS = (
    "cwndlab demo --no-open -o demo",
    "cwndlab compare demo --by cc --metric rtt_p95_ms | grep '95 % sure'",
)
PAUSE_S = 1.5
"""Longer than that nobody is kept waiting."""
TYPING_S = 0.04
"""A character takes so long to type."""
LINE, WIDTH, CHARACTER = 17, 104, 7.25
"""Of the recording: pixels from line to line, characters that fit, pixels of one."""


def main() -> None:
    """Run the demonstration once, recorded; show its report to a browser."""
    with tempfile.TemporaryDirectory() as folder:
        shown = [entry for command in COMMANDS for entry in record(command, Path(folder))]
        (PICTURES / "terminal.svg").write_text(drawn(shown), encoding="utf-8")
        photograph(Path(folder) / "demo" / "report.html", PICTURES / "report.png")


def record(command: str, folder: Path) -> list[tuple[float, str]]:
    """The command, and each line it prints, with the seconds that pass before it is there."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    found = [(len(command) * TYPING_S, f"$ {command}")]
    before = time.monotonic()
    assert process.stdout is not None
    for line in process.stdout:
        now = time.monotonic()
        found.append((now - before, line.rstrip("\n").rsplit("\r", 1)[-1]))
        before = now
    if process.wait():
        raise SystemExit(f"{command}: exit code {process.returncode}")
    return [*found, (1.0, "")]


def drawn(shown: list[tuple[float, str]]) -> str:
    """The lines as an SVG in which each appears at its time and stays; without animation all are there."""
    texts, now = [], 0.0
    lines = [(wait, part) for wait, line in shown for part in folded(line)]
    for number, (wait, line) in enumerate(lines, start=1):
        now += min(wait, PAUSE_S)
        kind = "c" if line.startswith("$ ") else "o"
        texts.append(
            f'<text class="{kind}" y="{number * LINE + 8}" style="animation-delay:{now:.2f}s">'
            f"{html.escape(line)}</text>"
        )
    body = "\n".join(texts)
    height, width = len(lines) * LINE + 20, WIDTH * CHARACTER + 24
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">
<title>A terminal: cwndlab demo</title>
<style>
text {{ font: 12px ui-monospace, Menlo, "DejaVu Sans Mono", monospace; white-space: pre; fill: #d7dde4;
  animation: show .1s both }}
.c {{ fill: #7ee0b0 }}
@keyframes show {{ from {{ opacity: 0 }} to {{ opacity: 1 }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#14181d"/>
<g transform="translate(12 4)" xml:space="preserve">
{body}
</g>
</svg>
"""


def folded(line: str) -> list[str]:
    """A line as a terminal breaks it; what follows the first part waits for nothing."""
    return [line[at : at + WIDTH] for at in range(0, max(len(line), 1), WIDTH)]


def photograph(page: Path, out: Path) -> None:
    """The first screen of a report as Chromium shows it, as PNG."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("Chromium is not here (Debian: chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
        shown.goto(page.resolve().as_uri())
        shown.wait_for_function("() => document.querySelector('canvas.base').dataset.lines > 0")
        shown.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    main()
