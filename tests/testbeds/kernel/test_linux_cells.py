"""What testbed `kernel` takes on of a sweep over systems: the cells of Linux; the others are counted."""

from dataclasses import replace

import pytest

from cwndlab.errors import ExperimentError, InputError
from cwndlab.experiment import suites, sweep, yaml_nodes
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.scenario import planner
from cwndlab.experiment.subset import Subset
from cwndlab.testbeds.kernel.support import support
from cwndlab.testbeds.schema import Spec

HEAD = "hosts: {a: {stack: freebsd-13}, b: {stack: linux-6.12}}\n"


def part(text: str) -> Subset:
    every = catalogue()
    linux = {name: stack for name, stack in every.stacks.items() if stack.family == "linux"}
    newest = {name: stack for name, stack in every.newest.items() if stack in linux}
    tree = yaml_nodes.parse(text, "x.yaml")
    known = replace(every, stacks=linux, newest=newest)
    return planner.subset(tree, sweep.read_axes(tree), Spec, support(None), known)


def test_the_suite_of_three_systems_runs_its_cells_of_linux() -> None:
    taken = part(suites.suite("teacup-140502A").path.read_text(encoding="utf-8"))
    assert {cell.values["hosts.a.stack"] for cell in taken.cells()} == {"linux-3.9"}
    assert len(list(taken.cells())) == 126
    assert taken.notes == (
        "126 of 378 cells are of Linux and run; left out: 189 of freebsd-9.2, 63 of windows-7",
    )


def test_cells_with_two_systems_are_counted_once() -> None:
    taken = part(
        f"{HEAD}sweep:\n- hosts.a.stack: [linux-6.12, windows]\n"
        "- hosts.b.stack: [linux-6.12, freebsd-13]\n- duration: [1s, 2s]\n"
    )
    assert len(list(taken.cells())) == 2
    assert taken.notes == (
        "2 of 8 cells are of Linux and run; left out: 2 of freebsd-13, 2 of windows, "
        "2 of windows with freebsd-13",
    )


def test_a_sweep_of_linux_alone_has_nothing_to_say() -> None:
    taken = part(f"{HEAD}sweep:\n- hosts.a.stack: [linux-6.12, linux]\n")
    assert (len(list(taken.cells())), taken.notes) == (2, ())


def test_a_name_that_no_system_has_is_kept_to_be_refused() -> None:
    taken = part(f"{HEAD}sweep:\n- hosts.a.stack: [linux-6.12, linuks]\n")
    assert [cell.values["hosts.a.stack"] for cell in taken.cells()] == ["linux-6.12", "linuks"]


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ("", "x.yaml:1: hosts.a.stack: found freebsd-13 in every cell; expected a Linux"),
        (
            "sweep:\n- hosts.a.stack: [freebsd-13, windows]\n",
            "x.yaml:3: hosts.a.stack: found 1 of freebsd-13, 1 of windows; expected a Linux",
        ),
    ],
)
def test_a_file_without_a_cell_of_linux_is_refused_in_one_line(sweep: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        part(HEAD + sweep)
    assert not isinstance(refused.value, ExperimentError)  # which would be shown with all else that is wrong
    assert str(refused.value).startswith(said)
