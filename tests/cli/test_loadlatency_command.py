"""The loadlatency commands: what is refused, and how, and what an interrupt leaves."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cwndlab as api
from cwndlab.cli import main
from patience import PATIENCE

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "line",
    [
        "run",
        "run ::1 --scenario 20",
        "run ::1 --scenario 1-",
        "run ::1 --duration 0",
        "run ::1 --duration soon",
        "run ::1 --staircase --duration 100",
        "run ::1 --at-most 0",
        "run ::1 --cc no-such",
        "run ::1 -4 -6",
        "run ::1 --idle-timeout 0",
        "run ::1 --json .",
        "run ::1 --json no-such/run.json",
        "run ::1 -o /etc",
        "run ::1 -o /etc/passwd",
        "run ::1 -o /dev/null/out",
        "serve here",
        "serve --bind nowhere",
        "serve --port 70000",
        "serve --cc no-such",
    ],
)
def test_bad_arguments_are_one_line(
    line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["loadlatency", *line.split()])
    out, err = capsys.readouterr()
    assert ended.value.code == 2, err
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["loadlatency", "run", "127.0.0.1", "--port", "1"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: cannot reach 127.0.0.1:1: Connection refused\n"


def start(*words: str, cwd: Path) -> "subprocess.Popen[bytes]":
    """A command, running, what it prints in files: reading a pipe by lines and then whole loses some."""
    command = [sys.executable, "-m", "cwndlab", "loadlatency", *words]
    with (cwd / f"{words[0]}.out").open("wb") as out, (cwd / f"{words[0]}.err").open("wb") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, cwd=cwd, start_new_session=True)


def printed(file: Path, wanted: str) -> str:
    """Return what a file holds once `wanted` is there."""
    deadline = time.monotonic() + PATIENCE
    while wanted not in (text := file.read_text()):
        assert time.monotonic() < deadline, f"{file}: {text!r}"
        time.sleep(0.1)
    return text


def test_an_interrupt_of_either_end_keeps_what_was_measured(
    tmp_path: Path, cwndlab: Callable[..., Any]
) -> None:
    server = start("serve", "--bind", "127.0.0.1", "--port", "0", cwd=tmp_path)
    client = None
    try:
        port = printed(tmp_path / "serve.out", "\n").split()[-1]
        words = ("run", "127.0.0.1", "--port", port, "--scenario", "1-3", "--duration", "30")
        client = start(*words, "--json", "run.json", "-o", "out", cwd=tmp_path)
        printed(tmp_path / "run.out", "Scenario 1")
        time.sleep(5)  # until the flow is connected and has carried something
        client.send_signal(signal.SIGINT)
        assert client.wait(PATIENCE) == 130
        out = (tmp_path / "run.out").read_text()
        assert re.search(r"Scenario 1: .* KiB/s down, .* Hz smoothness\n\nOVERALL:\n", out), out
        assert "Scenario 2" not in out
        assert (tmp_path / "run.err").read_text() == "results: out\nerror: interrupted\n"
        document = json.loads((tmp_path / "run.json").read_text())
        assert document["conditions"]["status"] == "interrupted"
        assert document["overall"]["download_capacity_kib_s"] > 0
        row, pinger = api.open(tmp_path / "out").summary.to_dicts()
        assert (row["flow"], pinger["flow"]) == ("down1", "pinger")
        assert row["goodput_mbps"] > 0
        assert out.partition("OVERALL:")[2].partition("\n\n")[0] in cwndlab("show", "out").out
        ran = cwndlab("report", "out")
        assert (ran.code, ran.err) == (0, ""), ran.err
        page = (tmp_path / "out" / "report.html").read_text()
        assert "OVERALL:" in page
        assert "Beside the published values" not in page and "stack None" not in page
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE) == 0
        assert (tmp_path / "serve.err").read_text() == ""
        assert "begins" in (tmp_path / "serve.out").read_text()
    finally:
        for process in (client, server):
            if process is not None:
                process.kill()
                process.wait()
