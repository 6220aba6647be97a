"""Completion in a real shell: what bash offers after the script that `cwndlab dev completion bash` prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRY = """
eval "$(cwndlab dev completion bash)"
COMP_WORDS=(cwndlab "$@") COMP_CWORD=$#
$(complete -p cwndlab | sed 's/.*-F \\([^ ]*\\).*/\\1/') cwndlab
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["rep"], ["report"]),
        (["dev", "wa"], ["watch"]),
        (["run", "--fo"], ["--force"]),
        (["run", "--testbed", "n"], ["netns"]),
        (["run", "loss-"], ["loss-resilience"]),
        (["run", ""], [""]),  # bash offers files where nothing else is offered
        (["lab", ""], ["init", "check"]),
        (["dev", "completion", ""], ["bash", "zsh", "fish"]),
    ],
)
@pytest.mark.slow
def test_bash_completes(typed: list[str], offered: list[str]) -> None:
    # The program beside this Python, as a shell would find it.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--norc", "-c", TRY, "bash", *typed],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ran.stdout.rstrip("\n").split("\n"), ran.stderr) == (offered, "")
