"""What commands of a lab file are told of their run, whatever is in the values."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cwndlab
from cwndlab.testbeds.live import user_programs
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.user_programs import Around
from experiments import dumbbell

HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned;",
    "\"; touch pwned; \"",
    "'; touch pwned; '",
    "\n touch pwned \n",
    "$CWNDLAB_RUN {run} ${PATH} \\",
    "* ? [a-z] ~ !! #",
    "-n",
    " two  blanks ",
)  # fmt: skip


def printed(values: RunValues, command: str, directory: Path) -> str:
    """What a shell prints that carries a command of a lab file out."""
    done = subprocess.run(
        ["sh", "-c", values.in_shell(command)],
        cwd=directory,
        env={**os.environ, **values.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert list(directory.iterdir()) == [], "a value was carried out"
    return done.stdout


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "command",
    [
        "printf %s {cell.x}",
        'printf %s "{cell.x}"',
        'printf %s ""{cell.x}""',
        "sh -c 'printf %s \"{cell.x}\"'",
        "printf %s \"$CWNDLAB_CELL_X\"",
    ],
)  # fmt: skip
def test_values_reach_commands_as_they_are_and_are_never_carried_out(
    command: str, value: str, tmp_path: Path
) -> None:
    assert printed(RunValues(3, 1, {"x": value}), command, tmp_path) == value


@pytest.mark.parametrize("value", HOSTILE)
def test_no_value_is_carried_out_where_quotes_are_within_quotes(value: str, tmp_path: Path) -> None:
    """The inner quotes are taken for the end of the outer ones: words may be split there, and no more."""
    command = 'printf %s "$(printf %s "{cell.x}")"'
    assert printed(RunValues(3, 1, {"x": "plain"}), command, tmp_path) == "plain"
    printed(RunValues(3, 1, {"x": value}), command, tmp_path)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(value=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_any_value_reaches_a_command_as_it_is(value: str) -> None:
    values = RunValues(3, 1, {"x": value})
    done = subprocess.run(
        ["sh", "-c", values.in_shell("printf %s {cell.x}")],
        env={**os.environ, **values.environment},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == value


def test_commands_know_run_repeat_cell_and_swept_values(tmp_path: Path) -> None:
    values = RunValues(7, 2, {"hosts.a.cc": "cubic", "hosts_a.cc": "bbr", "buffer size": "30p"})
    told = printed(
        values, "echo {run} {repeat} {cell.hosts.a.cc} {cell.hosts_a.cc} {cell.buffer size}", tmp_path
    )
    assert told == "7 2 cubic bbr 30p\n"
    assert json.loads(printed(values, "echo {cell}", tmp_path)) == {
        "hosts.a.cc": "cubic", "hosts_a.cc": "bbr", "buffer size": "30p",
    }  # fmt: skip
    assert values.environment["CWNDLAB_CELL_HOSTS_A_CC"] == "cubic"
    assert values.environment["CWNDLAB_CELL_BUFFER_SIZE"] == "30p"


def test_what_a_shell_has_in_braces_stays(tmp_path: Path) -> None:
    command = "run=5; { echo ${run}; } | awk '{ print $1, \"{runs}\" }'"
    assert printed(RunValues(7, 0, {}), command, tmp_path) == "5 {runs}\n"


def test_programs_are_told_values_in_words_and_by_their_environment() -> None:
    values = RunValues(7, 0, {"cc": "cubic", "rate": "10mbit"})
    words = values.in_words(["sh", "-c", "echo {run}-{cell.cc} $CWNDLAB_CELL_RATE {port}"])
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "7-cubic 10mbit {port}\n"


def test_what_commands_cannot_be_told_is_said_before_the_first_run() -> None:
    text = dumbbell("x", duration="1s", a="stack: freebsd", bottleneck="rate: 10mbit")
    scenario: Any = cwndlab.load(text).plan().runs[0].scenario
    program = {"server": ["serve", "{run}"], "client": ["sh", "-c", "send {cell.how}"]}
    scenario["live"] = {
        "flows": {"f1": {"tool": "command", "program": program}},
        "programs": {"log": {"hosts": ["a"], "command": ["look", "{cell.what}"]}},
    }
    around = {"a": Around(before_run=["set {cell.how}", "set {cell.queue}"], after_run=["echo {run}"])}
    said = user_programs.untold(scenario, around, RunValues(0, 0, {"how": "a; b"}))
    assert list(said) == [
        "a: before_run: `set {cell.queue}`: {cell.queue}: is not swept; how is",
        "flow f1: client: {cell.how} is 'a; b', which is put into no word; $CWNDLAB_CELL_HOW has it",
        "logger log: {cell.what}: is not swept; how is",
    ]
