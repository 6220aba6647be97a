"""The table of hints: each leads to something that an experiment file has."""

import pytest

from cwndlab.experiment import hints, units
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.schema import Section, Spec


def sections(model: type[Section] = Section) -> list[type[Section]]:
    return [model, *(each for below in model.__subclasses__() for each in sections(below))]


def test_every_meaning_is_known_somewhere() -> None:
    known = catalogue()
    there = {key for section in sections() for key in section.known_keys()}
    there |= {*known.queues, *known.apps, *Spec.known_keys()}
    there |= {cc for stack in known.stacks.values() for cc in stack.cc}
    for word, meant in hints.WORDS.items():
        assert set(meant) <= there, word
        for name in meant:
            assert hints.word(word, [name, "zzz"]) == f"did you mean {name}?"
    names = {section.section for section in sections()}
    assert names >= set(hints.SINGLE)


def test_every_sysctl_is_one_of_a_stack() -> None:
    known = {name for stack in catalogue().stacks.values() for name in stack.settable()}
    for alike in hints.SYSCTLS:
        systems = {name.split(".")[1] for name in alike & known}
        assert len(systems) > 1, alike  # of both


@pytest.mark.parametrize(
    ("number", "unit", "known", "hint"),
    [
        ("10", "MB/s", units.RATES, "did you mean 80mbit?"),
        ("2.5", "GBps", units.RATES, "did you mean 20gbit?"),
        ("1", "MiB/s", units.RATES, "did you mean 8.388608mbit?"),
        ("10", "Mb/s", units.RATES, "did you mean 10mbit?"),
        ("5", "m", units.TIMES, "did you mean 5min?"),
        ("5", "m", units.RATES, "did you mean 5mbit?"),
        ("9600000", "", units.RATES, "did you mean 9600000bit?"),
        ("40", "", units.TIMES, "40ms or 40s"),
        ("40", "furlongs", units.TIMES, None),
    ],
)
def test_units_of_other_tools(number: str, unit: str, known: dict[str, int], hint: str | None) -> None:
    assert hints.unit(number, unit, known) == hint
