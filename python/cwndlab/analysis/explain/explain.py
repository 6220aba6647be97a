"""An explanation, put together from evidence to counterfactual."""

from __future__ import annotations

from pathlib import Path as File

from cwndlab.analysis.explain import counterfactual, evidence, fits, limiters, path
from cwndlab.analysis.explain.evidence import Connection
from cwndlab.analysis.explain.fits import Fits
from cwndlab.analysis.explain.words import Explanation
from cwndlab.errors import unknown
from cwndlab.experiment.catalogue import catalogue

USUAL = "linux"


def of(file: File, flow: str | None, stack: str | None, cc: str | None) -> Explanation:
    """Explain a connection of a file.

    The counterfactual is simulated with `stack` and `cc`, or with what fits. Raises InputError for what
    cannot be read, and for a stack or control that there is not.
    """
    _known(stack, cc)
    found = evidence.read(file, flow)
    seen = path.of(found)
    line = limiters.timeline(found, seen)
    fitting = fits.of(found, seen, line)
    chosen = _chosen(found, fitting, stack, cc)
    return Explanation(found, seen, line, fitting, counterfactual.of(found, seen, line, *chosen))


def _known(stack: str | None, cc: str | None) -> None:
    engine = catalogue()
    chosen = engine.stack(stack or USUAL)
    if chosen is None:
        raise unknown("--stack", stack, engine.stack_names())
    if cc is not None and chosen.cc_alias.get(cc, cc) not in chosen.cc:
        raise unknown(f"--cc of {chosen.name}", cc, chosen.cc)


def _chosen(found: Connection, fitting: Fits, stack: str | None, cc: str | None) -> tuple[str, str]:
    """The stack and control to simulate: as asked, as they fit best, as the log says, or the usual ones."""
    if stack is None and cc is None and fitting.alike:
        return fitting.each[0].stack, fitting.each[0].cc
    engine = catalogue()
    chosen = engine.stack(stack or USUAL)
    if chosen is None:
        raise unknown("--stack", stack, engine.stack_names())
    logged = chosen.cc_alias.get(found.cc or "", found.cc or "")
    return chosen.name, cc or (logged if logged in chosen.cc else chosen.default_cc)
