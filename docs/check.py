"""Checks that every relative link of the documents leads to a file, and every `#anchor` to a heading.

Also that every picture shows something.

With `--site DIR` instead that no page of the built site loads anything from elsewhere, and that its search
finds no evidence.
"""

import json
import re
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source)[^>]+src=["']?(?:https?:)?//[^>]*>|<link(?![^>]*rel=["']?canonical)[^>]+href=["']?(?:https?:)?//[^>]*>"""
)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def main() -> int:
    """Print one line for each broken link; exit code 1 if there is one."""
    broken = [problem for document in documents() for problem in problems(document)]
    if sys.argv[1:2] == ["--site"]:
        site = Path(sys.argv[2])
        broken = [problem for page in site.rglob("*.html") for problem in loads(page)] + searched(site)
    for problem in broken:
        print(problem, file=sys.stderr)
    return 1 if broken else 0


def documents() -> list[Path]:
    """The documents a reader starts from, and all of docs/, examples/, groundtruth/ and tests/."""
    nested = (
        path
        for folder in ("docs", "examples", "groundtruth", "tests")
        for path in (ROOT / folder).rglob("*.md")
    )
    return [*sorted(ROOT.glob("*.md")), *sorted(nested)]


def problems(document: Path) -> list[str]:
    """One line for each link of a document that leads nowhere."""
    found = []
    for match in LINK.finditer(FENCE.sub("", document.read_text(encoding="utf-8"))):
        link = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.is_relative_to(ROOT):
            found.append(f"{document.relative_to(ROOT)}: {link}: outside the repository")
        elif not target.exists():
            found.append(f"{document.relative_to(ROOT)}: {link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            found.append(f"{document.relative_to(ROOT)}: {link}: no such heading")
        elif target.suffix == ".png" and _is_blank(target):
            found.append(f"{document.relative_to(ROOT)}: {link}: the picture shows nothing")
    return found


def _is_blank(picture: Path) -> bool:
    with Image.open(picture) as image:
        darkest, lightest = image.convert("L").getextrema()
    return bool(darkest == lightest)


def loads(page: Path) -> list[str]:
    """One line for each script, style, picture or font that a page of the site takes from another host."""
    text = page.read_text(encoding="utf-8")
    return [f"{page}: loads {tag}" for tag in ELSEWHERE.findall(text)]


def searched(site: Path) -> list[str]:
    """One line for each place in the evidence that the site's search finds; one if it finds nothing."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = [entry["location"] for entry in index["docs"]]
    found = [f"search finds {place}" for place in places if place.startswith("evidence/")]
    return found if places else ["search finds nothing"]


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, formed as code hosts form them."""
    headings = HEADING.findall(FENCE.sub("", document.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    sys.exit(main())
