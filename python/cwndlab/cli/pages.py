"""The pages of docs/, which the installed package carries: what `cwndlab help TOPIC` prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from cwndlab.errors import unknown

PAGES = Path(__file__).parents[1] / "pages"
"""Folder of the pages: in a checkout a link to its docs/, in an installed package the pages themselves."""

LIST = "pages.yml"
"""The sections and their pages in order, and for whom each page is."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: what it is called (`netns`, `tutorials/my-patch`), where it stands, and for whom it is."""

    name: str
    section: str
    reader: str

    @property
    def path(self) -> Path:
        """Path of the page's file, which pages that are made from the program do not have."""
        return PAGES / f"{self.name}.md"

    def text(self) -> str:
        """The page as Markdown, its reader below the heading, without pictures, which no terminal shows."""
        heading, _, rest = self.path.read_text(encoding="utf-8").partition("\n")
        return re.sub(r"^!\[.*\n", "", f"{heading}\n\n*For {self.reader}*\n{rest}", flags=re.MULTILINE)


def pages() -> list[Page]:
    """All pages of the site, in its order."""
    sections = yaml.safe_load((PAGES / LIST).read_text(encoding="utf-8"))
    return [
        Page(name, section, reader) for section, there in sections.items() for name, reader in there.items()
    ]


def topics() -> list[Page]:
    """The pages that can be printed."""
    return [page for page in pages() if page.path.exists()]


def page(topic: str) -> Page:
    """The page of that name, or else whose name ends so; raises InputError with the nearest."""
    there = {page.name: page for page in reversed(topics())}
    ends = {name.rpartition("/")[2]: page for name, page in there.items()}
    if (found := there.get(topic) or ends.get(topic)) is None:
        raise unknown("topic", topic, there)
    return found
