"""The action for GitHub: its steps carried out as a runner does, with a program in place of GitHub's."""

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import SMALL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))

PROGRAM = f"""\
#!{sys.executable}
from cwndlab.__main__ import command
command()
"""

GH = """\
#!/bin/sh
printf '%s\\n' "$@" >> "$CALLS"
case "$*" in
    *--paginate*) cat "$COMMENTED" ;;
    *) [ ! -e "$COMMENTED.refused" ] ;;
esac
"""


@dataclass
class Done:
    """Outcome of a run of the action."""

    code: int
    """Exit code of the first step that failed."""
    said: str
    summary: str
    outputs: dict[str, str]
    uploaded: dict[str, str] | None
    calls: list[str]


class Runner:
    """A runner of GitHub in a folder: its variables, files and `${{ }}`, step by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "programs"
        for path in (self.programs, folder / "work", folder / "temp"):
            path.mkdir()
        self.program("gh", GH)
        self.commented = folder / "commented"
        self.commented.write_text("")

    def program(self, name: str, text: str) -> None:
        file = self.programs / name
        file.write_text(text)
        file.chmod(0o755)

    def __call__(self, event: str = "pull_request", **given: str) -> Done:
        declared = ACTION["inputs"]
        assert given.keys() <= declared.keys()
        missing = {name for name, each in declared.items() if each.get("required") and name not in given}
        assert not missing
        values = {"github.token": "secret", "github.action_path": str(ROOT), "github.event_name": event}
        values |= {"github.repository": "o/r", "github.event.pull_request.number": "7"}
        for name, each in declared.items():
            values[f"inputs.{name}"] = given.get(name, expanded(str(each.get("default", "")), values))
        path, uploaded, said, code = f"{self.programs}:{os.environ['PATH']}", None, "", 0
        for step in ACTION["runs"]["steps"]:
            if not wanted(step.get("if", "true"), values):
                continue
            if "uses" in step:
                uploaded = {key: expanded(value, values) for key, value in step["with"].items()}
                continue
            files = {
                name: self.folder / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
            }
            files["GITHUB_OUTPUT"].write_text("")
            files["GITHUB_PATH"].write_text("")
            assert step["shell"] == "bash"
            ran = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.folder / "work",
                env={**os.environ, "PATH": path, "RUNNER_TEMP": str(self.folder / "temp"),
                     "CALLS": str(self.folder / "calls"), "COMMENTED": str(self.commented),
                     **{name: str(file) for name, file in files.items()},
                     **{key: expanded(value, values) for key, value in step.get("env", {}).items()}},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            said += ran.stdout
            for line in files["GITHUB_OUTPUT"].read_text().splitlines():
                key, _, value = line.partition("=")
                values[f"steps.{step['id']}.outputs.{key}"] = value
            path = ":".join([*files["GITHUB_PATH"].read_text().split(), path])
            if ran.returncode:
                code = ran.returncode
                break
        calls, summary = self.folder / "calls", self.folder / "GITHUB_STEP_SUMMARY"
        return Done(
            code,
            said,
            summary.read_text() if summary.exists() else "",
            {name: expanded(each["value"], values) for name, each in ACTION["outputs"].items()},
            uploaded,
            calls.read_text().splitlines() if calls.exists() else [],
        )


def expanded(text: str, values: dict[str, str]) -> str:
    """The text with what its `${{ }}` name; a name that a runner has not is an error of the action."""
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: values[found[1]], str(text))


def wanted(condition: str, values: dict[str, str]) -> bool:
    """Whether an `if:` of equalities holds."""
    for part in condition.split(" && "):
        if part == "true":
            continue
        name, sign, word = part.split(" ")
        assert sign in ("==", "!=")
        if (values[name] == word.strip("'")) is not (sign == "=="):
            return False
    return True


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    made = Runner(tmp_path)
    made.program("cwndlab", PROGRAM)
    return made


def experiment(runner: Runner, **expect: str) -> None:
    lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in expect.items())
    (runner.folder / "work" / "small.yaml").write_text(SMALL + (f"expect:\n{lines}" if expect else ""))


def test_what_holds_is_kept_and_said(runner):
    experiment(runner, goodput_mbps="> 1")
    done = runner(file="small.yaml", install="none", arguments="--set repeat=2 --jobs 1")
    assert (done.code, done.outputs["code"]) == (0, "0"), done.said
    results = Path(done.outputs["results"])
    assert (results / "report.html").exists() and (results.parent / "junit.xml").exists()
    assert done.uploaded == {"name": "cwndlab", "path": str(results.parent)}
    assert done.summary.startswith("<!-- cwndlab cwndlab -->\n**small.yaml: as expected**\n")
    assert "holds in 2 of 2 cells: goodput_mbps > 1" in done.summary
    # No comment is there yet: one is made, of what the summary says.
    posted = ["api", "--silent", "repos/o/r/issues/7/comments", "-F", f"body=@{results.parent}/verdict.md"]
    assert done.calls[-len(posted) :] == posted
    assert (results.parent / "verdict.md").read_text() == done.summary


def test_what_does_not_hold_fails_after_it_is_kept_and_said(runner):
    experiment(runner, goodput_mbps="> 100")
    runner.commented.write_text("https://api/comments/3\nhttps://api/comments/4\n")
    done = runner(file="small.yaml", install="none", arguments="--set repeat=1", artifact="of-reno")
    assert (done.code, done.outputs["code"]) == (1, "1"), done.said
    assert done.uploaded is not None and done.uploaded["name"] == "of-reno"
    assert done.summary.startswith("<!-- cwndlab of-reno -->\n**small.yaml: FAILED**\n")
    assert "FAILS in 0 of 2 cells: goodput_mbps > 100" in done.summary
    # The comment of the run before is renewed.
    patched = done.calls.index("PATCH")
    assert done.calls[patched + 1] == "https://api/comments/3"


def test_a_bad_file_is_said_and_fails(runner):
    (runner.folder / "work" / "small.yaml").write_text("experiment: $(touch pwned)\n")
    done = runner(file="small.yaml", install="none", arguments="--set $(touch${IFS}pwned) `touch pwned`")
    assert done.code == 2, done.said
    assert "**small.yaml: not run**" in done.summary
    assert "error: " in done.summary
    assert not (runner.folder / "work" / "pwned").exists()


def test_a_comment_that_is_refused_is_a_warning(runner):
    experiment(runner)
    (runner.folder / "commented.refused").touch()
    done = runner(file="small.yaml", install="none", arguments="--set repeat=1")
    assert done.code == 0
    assert "::warning title=cwndlab::the verdict could not be written" in done.said
    assert "complete; nothing is expected" in done.summary


@pytest.mark.parametrize("given", [{"event": "push"}, {"comment": "false"}])
def test_no_comment_without_a_pull_request_or_where_none_is_wanted(runner, given: dict[str, Any]):
    experiment(runner)
    assert runner(file="small.yaml", install="none", arguments="--set repeat=1", **given).calls == []


def test_what_pip_installs_is_what_runs(tmp_path):
    """A wheel whose program is this checkout's, so that nothing is built or fetched."""
    runner = Runner(tmp_path)
    wheel = tmp_path / "cwndlab-9-py3-none-any.whl"
    info = "cwndlab-9.dist-info"
    with zipfile.ZipFile(wheel, "w") as packed:
        script = zipfile.ZipInfo("cwndlab-9.data/scripts/cwndlab")
        script.external_attr = 0o100755 << 16
        packed.writestr(script, PROGRAM)
        packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: cwndlab\nVersion: 9\n")
        packed.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{info}/RECORD", "")
    experiment(runner)
    done = runner(file="small.yaml", install=str(wheel), arguments="--set repeat=1", event="push")
    assert done.code == 0, done.said
    assert (tmp_path / "temp" / "cwndlab" / "bin" / "cwndlab").exists()


def test_other_actions_are_pinned_as_in_the_workflows():
    workflows = "".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    used = re.findall(r"uses: (\S+)", (ROOT / "action.yml").read_text())
    assert used and all(f"uses: {each}" in workflows for each in used)
