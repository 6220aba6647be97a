"""Code of other packages, which joins by entry points.

| group | an object in it |
| --- | --- |
| `cwndlab.testbeds` | a testbed (`cwndlab.testbeds.Kind`) |
| `cwndlab.importers` | a module that reads files of one format (`cwndlab.formats.base.Format`) |
| `cwndlab.trees` | a module that reads directories of results (`cwndlab.formats.importers.Trees`) |
| `cwndlab.configurations` | a module that makes experiments (`cwndlab.formats.importers.Configurations`) |
| `cwndlab.exporters` | a function that writes a run in a format (`cwndlab.formats.exporters.Writer`) |
| `cwndlab.plots` | a function that draws a kind of plot (`cwndlab.report.plots.Draw`) |

The name of an entry point of testbeds, exporters and plots is the word that a user writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from cwndlab.errors import CwndlabError

OURS: Mapping[str, Mapping[str, str]] = {
    "teacup": {
        "cwndlab.importers": "Web10G or EStats, ttprobe, tcp_probe, TEACUP's results and configurations",
        "cwndlab.exporters": "xplot",
    },
}
"""Additions to groups by packages of this repository, by the extra of cwndlab that installs each."""


@cache
def load(group: str) -> Mapping[str, Any]:
    """The objects of a group, by name; raises CwndlabError, one line, where one cannot be loaded."""
    found = {}
    for entry in sorted(entry_points(group=group)):
        try:
            found[entry.name] = entry.load()
        except (ImportError, AttributeError) as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            raise CwndlabError(f"{package}: {entry.name} of {group} cannot be loaded: {error}") from None
    return found


def others(group: str) -> str:
    """Additions to a group by cwndlab's packages that are not installed, to stand behind a list; else
    empty.
    """
    installed = {entry.value.partition(".")[0] for entry in entry_points(group=group)}
    return "".join(
        f"; {added[group]}: pip install 'cwndlab[{extra}]'"
        for extra, added in OURS.items()
        if group in added and f"cwndlab_{extra}" not in installed
    )
