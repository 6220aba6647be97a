"""The HTML report: one file that needs no network, with tables, linked interactive plots and provenance.

The viewer is a small one of our own on a canvas (`report.js`) instead of plotly.js: that library is 4.5 MB of
every report and slow to open on a phone, and what a report needs (lines, a common zoom, a crosshair) is some
hundred lines.
"""

from __future__ import annotations

from cwndlab.report.html_report.sections import write

__all__ = ["write"]
