"""Puts the built site beside those of earlier versions: `python docs/publish.py SITE ROOT VERSION`.

ROOT has a folder for each version, and versions.json, from which pages offer them. Its own page leads to the
newest release.
"""

import json
import re
import shutil
import sys
from pathlib import Path

RELEASE = re.compile(r"\d+(\.\d+)*")
"""What is no number is of no release, as `main`."""

LEADS = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<title>cwndlab</title>
<a href="{newest}/index.html">cwndlab {newest}</a>
"""


def main(site: Path, root: Path, version: str) -> None:
    """Copy the site, in place of one of the same version, and write what leads to it."""
    if not re.fullmatch(r"[\w.-]*\w", version):
        raise SystemExit(f"{version}: a version is letters, digits, dots and dashes")
    shutil.rmtree(root / version, ignore_errors=True)
    shutil.copytree(site, root / version)
    there = sorted((page.parent.name for page in root.glob("*/index.html")), key=_order, reverse=True)
    (root / "versions.json").write_text(
        json.dumps([{"version": name, "title": name, "aliases": []} for name in there], indent=1) + "\n",
        encoding="utf-8",
    )
    (root / "index.html").write_text(LEADS.format(newest=there[0]), encoding="utf-8")


def _order(version: str) -> tuple[bool, list[int], str]:
    """Releases by their numbers, before anything else."""
    released = bool(RELEASE.fullmatch(version))
    return released, [int(part) for part in version.split(".")] if released else [], version


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
