"""`cwndlab compare --cc --suite rfc9743`, and the other suites of criteria."""

from pathlib import Path
from typing import TYPE_CHECKING

from cwndlab.cli.options import own_command
from cwndlab.cli.output import progress, say
from cwndlab.errors import CwndlabError

if TYPE_CHECKING:
    from cwndlab.analysis.review.sides import Side
    from cwndlab.experiment.catalogue import Stack


def subject(suite: str, given: str, *, stack: str | None, private: bool) -> "tuple[Side, Stack]":
    """Return what a suite judges, by its name on the command line, and the stack of the flows."""
    from cwndlab.analysis import review as judge
    from cwndlab.experiment.catalogue import catalogue
    from cwndlab.experiment.suites.evaluations import SUITES, Subject

    about, known = SUITES[suite].subject, catalogue()
    if about is Subject.CC:
        return judge.single(given, stack=stack, private=private)
    names = known.queues if about is Subject.QUEUE else known.apps["media"].param("controller").choices
    return judge.modelled(given, f"--suite {suite}: {about}", list(names), stack)


def evaluate(
    suite: str,
    side: "tuple[Side, Stack]",
    place: Path,
    *,
    text: Path | None,
    repeats: int | None,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Judge one side by a suite of criteria, and write the page, the text, JSON and JUnit."""
    from cwndlab.analysis.review import evaluation, evaluation_words
    from cwndlab.execution.executors import processors
    from cwndlab.report import evaluation_page
    from cwndlab.results import files, junit

    with progress(quiet) as observer:
        found = evaluation.carry_out(
            suite,
            *side,
            place,
            repeats=repeats or evaluation.REPEATS,
            jobs=jobs or processors(),
            observer=observer,
        )
    words = evaluation_words.text(found)
    files.save(place / "review.html", evaluation_page.html(found, own_command()).encode())
    files.save(place / "review.json", evaluation_words.as_json(found).encode())
    cases, notes = evaluation_words.cases(found), evaluation_words.notes(found)
    junit.write_cases(suite, cases, place / "review.xml", notes)
    if text is None:
        print(words, end="")
    else:
        files.save(text, words.encode())
    say(f"review: {place / 'review.html'}, with review.json, and review.xml for JUnit")
    if found.failures:
        raise CwndlabError(f"{len(found.failures)} of {found.runs} runs failed; {place} holds the others")
