"""The loadlatency commands: what is refused, and how."""

from pathlib import Path

import pytest

from cwndlab.cli import main


@pytest.mark.parametrize(
    "line",
    [
        "run",
        "run ::1 --scenario 20",
        "run ::1 --scenario 1-",
        "run ::1 --duration 0",
        "run ::1 --duration soon",
        "run ::1 --staircase --duration 100",
        "run ::1 --cc no-such",
        "run ::1 -4 -6",
        "run ::1 --idle-timeout 0",
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
