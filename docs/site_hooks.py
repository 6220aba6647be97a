"""What the site has beside its pages: whom each is for, the commands, and files that pages link to."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)

with (ROOT / "docs" / "pages.yml").open(encoding="utf-8") as table:
    SECTIONS: dict[str, dict[str, str]] = yaml.safe_load(table)
LAB = ROOT / "python/cwndlab/report/live_page/page"
"""The live lab: static files, which `make web` completes."""

FRAME = (
    "Move a slider: every packet is simulated anew, here in your browser ([the live lab](live.md)).\n\n"
    '<iframe src="lab/index.html" title="The live lab" style="width:100%;height:60rem;border:0"></iframe>\n\n'
)
"""The live lab on the first page of the site, before its table."""

EVIDENCE = "Evidence"
"""The section of pages that others link to, left out of the table of contents and of the search."""

READERS = {page: reader for pages in SECTIONS.values() for page, reader in pages.items()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The table of contents, without evidence."""
    config.nav = [
        {section: [f"{page}.md" for page in pages]}
        for section, pages in SECTIONS.items()
        if section != EVIDENCE
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of commands, from the program's own parser, the live lab, and files that pages link to."""
    program = os.environ.get("CWNDLAB_PYTHON", str(ROOT / ".venv/bin/python"))
    made = subprocess.run(
        [program, ROOT / "docs" / "commands.py"], capture_output=True, text=True, check=True
    )
    files.append(File.generated(config, "commands.md", content=made.stdout))
    if _has_lab():
        for part in sorted(LAB.iterdir()):
            files.append(File.generated(config, f"lab/{part.name}", content=part.read_bytes()))
    linked = {
        target
        for page in files.documentation_pages()
        for _, target in _outside(page.src_uri, page.content_string)
    }
    for target in sorted(linked):
        files.append(File.generated(config, _place(target), content=(ROOT / target).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Say below the heading whom the page is for, and lead links beyond docs/ to the copies."""
    name = page.file.src_uri.removesuffix(".md")
    if name in SECTIONS[EVIDENCE]:
        page.meta["search"] = {"exclude": True}
    heading, _, rest = markdown.partition("\n")
    up = "../" * name.count("/")
    for link, target in _outside(page.file.src_uri, markdown):
        rest = rest.replace(f"]({link})", f"]({up}{_place(target)})")
    if name == "index" and _has_lab():
        text, table, links = rest.partition("| you want to |")
        rest = text + FRAME + table + links
    return f"{heading}\n\n*For {READERS[name]}.*\n{rest}"


def _has_lab() -> bool:
    return (LAB / "engine_bg.wasm").exists()


def _outside(page: str, markdown: str) -> list[tuple[str, str]]:
    """Links of a page to files of the repository that are no pages: as written, and from the root."""
    folder = (ROOT / "docs" / page).parent
    found = []
    for part in FENCE.split(markdown)[::2]:
        for _, link, anchor in LINK.findall(part):
            target = Path(os.path.normpath(folder / link))
            if ":" in link or target.is_relative_to(ROOT / "docs") or not target.is_relative_to(ROOT):
                continue
            if target.is_dir():
                target = target / "README.md"
            found.append((f"{link}{anchor}", target.relative_to(ROOT).as_posix()))
    return found


def _place(target: str) -> str:
    """Where a file of the repository is in the site: as text, which a browser shows."""
    return f"repository/{target}.txt"
