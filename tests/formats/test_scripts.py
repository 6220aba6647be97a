"""`cwndlab dev script`: scripts pass, fail as the original tool fails, or are refused with one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE

SCRIPTS = Path(__file__).parents[2] / "crates/script/scripts"

HANDSHAKE = """\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
"""


def script(*arguments: str | Path) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of `cwndlab dev script`."""
    command = [sys.executable, "-m", "cwndlab", "dev", "script", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.slow
def test_scripts_that_pass_are_silent():
    files = [SCRIPTS / name for name in ("linux-prr.pkt", "linux-tlp-retransmit.pkt", "connect.pkt")]
    assert script(*files, "--stack", "linux-6.18") == (0, "", "")


@pytest.mark.slow
def test_a_difference_is_shown_as_the_original_tool_shows_it(tmp_path):
    file = tmp_path / "data.pkt"
    file.write_text(f"{HANDSHAKE}+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 2\n")
    code, out, err = script(file, "--stack", "freebsd-13")
    lines = err.splitlines()
    assert (code, out, len(lines)) == (1, "", 3)
    difference = "live packet field tcp_ack_seq: expected: 2 (0x2) vs actual: 1 (0x1)"
    assert lines[0] == f"{file}:9: error handling packet: {difference}"
    assert lines[1] == "script packet:  0.100000 P. 1:1001(1000) ack 2"
    assert lines[2].startswith("actual packet:  0.100000 P. 1:1001(1000) ack 1 win ")


@pytest.mark.slow
def test_a_script_prints_and_takes_symbols(tmp_path):
    file = tmp_path / "print.pkt"
    events = "+0 %{ print('cwnd', tcpi_snd_cwnd) }%\n+0 write(4, ..., SIZE) = SIZE\n+0 close(4) = 0\n"
    file.write_text(HANDSHAKE + events)
    assert script(file, "--stack", "linux-6.8", "--define", "SIZE=700") == (0, "cwnd 10\n", "")
    code, _, err = script(file, "--stack", "linux-6.8")
    assert (code, err) == (2, f"{file}:9: write: argument 3 is not a number\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("`touch {marker}`\n0 close(3) = 0\n", "1: `touch {marker}`: only settings are read from a command"),
        ("0 `sysctl -q net.ipv4.tcp_sack=0; touch {marker}`\n", "1: `touch {marker}`: only settings"),
        ("0 `sysctl -q net.ipv4.tcp_sack=$(touch {marker})`\n", "1: `sysctl -q net.ipv4.tcp_sack=$(touch"),
        ("--init_scripts={marker}\n0 close(3) = 0\n", "1: --init_scripts: no other programs are run"),
        (
            "\n0 %{{ import os }}%\n",
            "2: code: found `import`; only `assert`, `print` and NAME = … are allowed",
        ),
        ("0 %{{ assert open('{marker}', 'w') }}%\n", "1: code: open(): only abs, min and max may be called"),
    ],
)
@pytest.mark.slow
def test_nothing_in_a_script_is_executed(tmp_path, text, complaint):
    file, marker = tmp_path / "evil.pkt", tmp_path / "marker"
    file.write_text(text.format(marker=marker))
    code, out, err = script(file, "--stack", "linux-6.18")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"{file}:{complaint.format(marker=marker)}")
    assert not marker.exists()


@pytest.mark.slow
def test_what_cannot_be_read_is_one_line(tmp_path):
    binary = tmp_path / "binary.pkt"
    binary.write_bytes(b"\xff\xfe\x00")
    assert script(binary, "--stack", "linux") == (2, "", f"error: {binary}: not UTF-8 text\n")
    missing = tmp_path / "missing.pkt"
    assert script(missing, "--stack", "linux") == (2, "", f"error: {missing}: No such file or directory\n")
    file = tmp_path / "good.pkt"
    file.write_text(HANDSHAKE)
    code, _, err = script(file, "--stack", "linux-7")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("stack linux-7: not known; expected one of ")
    code, _, err = script(file, "--stack", "linux", "--define", "1=2")
    assert (code, err) == (2, "error: --define: found '1=2'; expected NAME=VALUE\n")


@pytest.mark.slow
def test_a_suite_is_run_and_counted(tmp_path):
    suite = tmp_path / "suite"
    (suite / "slow_start").mkdir(parents=True)
    (suite / "ecn").mkdir()
    written = f"{HANDSHAKE}+0 write(4, ..., 1000) = 1000\n"
    passing = f"{written}#ifdef FreeBSD\n+0 > P. 1:1001(1000) ack 1\n#endif\n"
    (suite / "slow_start" / "data.pkt").write_text(passing)
    (suite / "slow_start" / "wrong.pkt").write_text(passing.replace("ack 1\n#endif", "ack 2\n#endif"))
    (suite / "slow_start" / "wrong.exfail").write_text("Bug.\n")
    (suite / "slow_start" / "word.pkt").write_text("0 frobnicate\n")
    (suite / "ecn" / "left.pkt").write_text(
        "+0 splice(4, NULL, 6, NULL, 1, 0) = 1\n+0 < U. 1:2(1) ack 1 win 9 urg 1\n"
    )
    # What comes behind the last event is not looked at, as the original tool does it.
    (suite / "end.pkt").write_text(written)
    # The name says that it is tried with IPv6, whose header leaves 20 bytes less.
    listening = HANDSHAKE.partition("+0 <")[0]
    (suite / "mss-v6.pkt").write_text(
        f"{listening}+0 < S 0:0(0) win 9 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1440>\n"
    )
    each = tmp_path / "each.jsonl"
    code, out, err = script("--suite", suite, "--stack", "freebsd-13", "-o", each)
    assert (code, err) == (0, "")
    assert "| congestion control | 3 | 0 | 3 | 1 | 2 |\n" in out
    assert "| ECN | 1 | 1 | 0 | 0 | 0 |\n" in out
    assert "| all | 6 | 1 | 5 | 3 | 2 |\n" in out
    assert "\nMarked by the collection as failing (.exfail): 1, of which 1 failed.\n" in out
    assert "| splice and sendfile | 1 | 0 |\n" in out
    assert "| urgent data | 1 | 0 |\n" in out
    verdicts = {row["script"]: row["verdict"] for row in map(json.loads, each.read_text().splitlines())}
    assert verdicts == {
        "ecn/left.pkt": "left out",
        "end.pkt": "passed",
        "mss-v6.pkt": "passed",
        "slow_start/data.pkt": "passed",
        "slow_start/word.pkt": "refused",
        "slow_start/wrong.pkt": "failed",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "nowhere"], "nowhere: no such directory"),
        ([], "name scripts to run, or a directory of them with --suite"),
        (["a.pkt", "-o", "b"], "--out goes with --suite"),
        (["a.pkt", "--suite", "."], "found a.pkt besides --suite; it runs every script below its directory"),
    ],
)
@pytest.mark.slow
def test_a_suite_that_cannot_be_run(arguments, message):
    code, out, err = script(*arguments, "--stack", "freebsd-13")
    assert (code, out) == (2, "")
    assert err.strip() == f"error: {message}"
