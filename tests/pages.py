"""Pages as tests read them."""

from cwndlab.report.html_report import sections
from cwndlab.results.resultset import ResultSet


def rendered(results: ResultSet) -> str:
    """The report, with a plain space between numbers and units, where it has one that breaks no line."""
    return sections.render(results).replace("\N{NO-BREAK SPACE}", " ")
