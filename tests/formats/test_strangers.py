"""Files that mean harm: endless and compressed ones, escape sequences in names, formulas for spreadsheets."""

import csv
import gzip
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import logs
import pytest

import cwndlab
from cwndlab.errors import InputError, printable
from cwndlab.formats import base, exporters, importers
from cwndlab.formats.capture import Options
from cwndlab.formats.scripts import single
from cwndlab.results.texttable import csv_cell
from patience import PATIENCE

pytestmark = pytest.mark.slow

HOSTILE = "a\x1b[31m\x9b2J\u202eb\x07"
SHOWN = r"a\x1b[31m\x9b2J\u202eb\x07"

FLENT = {
    "version": 4,
    "metadata": {"NAME": HOSTILE, "TITLE": "=1+1", "HOST": "h"},
    "x_values": [0.2, 0.4],
    "results": {f"TCP upload::{HOSTILE}": [8.0, 8.0]},
    "raw_values": {},
}


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command with no more than 2 GiB of memory, and half a minute."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))

    return subprocess.run(
        [sys.executable, "-m", "cwndlab", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        preexec_fn=limit,
    )


def bomb(path: Path, start: bytes, size: int) -> Path:
    """A gzip file of `start` and so many zeros."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(start)
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "import"),
        ("data", "trace"),
        ("data", "trace", "--text"),
        ("dev", "script", "--stack", "linux-6.8"),
    ],
)
def test_what_never_ends_is_refused_in_a_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/zero"), pipe):
        ran = command(*arguments, path)
        assert ran.returncode == 2 and ran.stderr.count("\n") == 1, ran.stderr
        assert str(path) in ran.stderr and ("regular file" in ran.stderr or "not a file" in ran.stderr)


def test_compressed_bombs_are_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flent = bomb(tmp_path / "bomb.flent.gz", b'{"version": 4, "metadata": {', base.MAX_JSON_BYTES + (1 << 20))
    ran = command("data", "import", flent)
    assert (ran.returncode, ran.stderr) == (2, f"error: {flent}: holds more than 32 MiB\n")
    monkeypatch.setattr(base, "MAX_BYTES", 8 << 20)
    siftr = bomb(tmp_path / "bomb.log.gz", logs.siftr13().encode(), 9 << 20)
    with pytest.raises(InputError, match="holds more than 8 MiB"):
        base.read(siftr)


def test_a_line_of_separators_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(logs.siftr13().replace("\no,", "\n" + "," * 5_000_000 + "\no,", 1))
    (found,) = base.read(tmp_path / "log")
    assert found.warnings == ("1 lines are no records",)
    (tmp_path / "head").write_text("enable_time_secs=1 siftrver=1.2.4 " + "a=b\t" * 100_000)
    with pytest.raises(InputError, match="not a header of SIFTR"):
        base.read(tmp_path / "head")


def test_control_characters_are_escaped_wherever_they_are_printed(tmp_path: Path) -> None:
    file = tmp_path / f"{HOSTILE}.flent"
    file.write_text(json.dumps(FLENT))
    ran = command("data", "import", file, "-o", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    found = cwndlab.open(tmp_path / "out")
    assert found.summary["flow"].to_list() == [f"TCP upload::{SHOWN}"]
    assert found.record(0).facts["NAME"] == SHOWN
    bad = tmp_path / f"{HOSTILE}.log"
    bad.write_text("nothing\n")
    refused = command("data", "import", bad)
    assert refused.returncode == 2 and SHOWN in refused.stderr
    for text in (
        *(ran.stdout, ran.stderr, refused.stderr),
        *(command("show", tmp_path / "out", *more).stdout for more in ((), ("--columns", "flow,run_id"))),
        (tmp_path / "out" / "summary.csv").read_text(),
    ):
        assert not set(text) & set("\x1b\x9b\u202e\x07"), text


def test_a_packetdrill_script_prints_no_escapes(tmp_path: Path) -> None:
    file = tmp_path / "script.pkt"
    file.write_text(f"0 {HOSTILE}\n")
    ran = command("dev", "script", file, "--stack", "linux-6.8")
    assert ran.returncode == 2 and not set(ran.stdout + ran.stderr) & set("\x1b\x9b\u202e\x07")
    with pytest.raises(InputError, match="too large for a script"):
        big = tmp_path / "big.pkt"
        big.write_bytes(b"0" * (single.LARGEST + 1))
        single.run(big, "linux-6.8", single.Choices())


def test_one_function_says_what_may_be_shown() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("µs → 10.0.0.1:80 é 日本") == "µs → 10.0.0.1:80 é 日本"
    assert printable("a\nb\r\u2028\ud800\x7f\u2066") == r"a\nb\r\u2028\ud800\x7f\u2066"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *((text, f"'{text}") for text in ("=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "\r=1")),
        *((text, text) for text in ("-5", "+5.5", "-1e3", "10mbit", "a=b", "f-1", "")),
        (None, ""),
        (-3, "-3"),
    ],
)
def test_formulas_are_no_formulas_in_csv(value: object, cell: str) -> None:
    assert csv_cell(value) == cell


def test_summaries_and_exports_hold_no_formulas(tmp_path: Path) -> None:
    name = "=HYPERLINK(1)"
    log = logs.siftr13().replace("10.0.0.1", name)
    (tmp_path / "log").write_text(log)
    results = importers.results([tmp_path / "log"], Options(), tmp_path / "out")
    with (tmp_path / "out" / "summary.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["flow"] == f"'{name}:40000-10.0.1.1:5001"
    for file in exporters.export(results, "csv", tmp_path / "csv"):
        with file.open(newline="") as stream:
            cells = [cell for line in csv.reader(stream) for cell in line]
        assert any(name in cell for cell in cells)
        assert not [cell for cell in cells if cell[:1] in "=+@" and cell]
