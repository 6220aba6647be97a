"""Captures of simulated runs, read by the tools people use: tshark and tcptrace."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import cwndlab
from cwndlab.results.resultset import ResultSet

EXPERIMENT = """
experiment: captures
duration: 6s
hosts:
  a: {stack: STACK, cc: CC, sndbuf: 600KB}
  b: {stack: STACK, rcvbuf: 600KB}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 100mbit}
    bottleneck: {rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 20p}, loss: {random: 0.5%}}
flows:
  - {name: f1, from: a, to: b, app: bulk, bytes: 2MB}
record: {pcap: [a, b, {at: bottleneck, snaplen: 60}]}
"""

STACKS = [
    ("freebsd-9.2", "newreno"),
    ("freebsd-13", "cubic"),
    ("linux-3.9", "cubic"),
    ("linux-6.8", "reno"),
]


def tool(name: str) -> str:
    path = shutil.which(name)
    assert path, f"{name} is not installed: `make test` does that"
    return path


def tshark(capture: Path, *fields: str, keep: str = "") -> list[list[str]]:
    command = [
        tool("tshark"),
        "-r",
        str(capture),
        "-T",
        "fields",
        "-o",
        "tcp.relative_sequence_numbers:FALSE",
    ]
    if keep:
        command += ["-Y", keep]
    for field in fields:
        command += ["-e", field]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in text.splitlines()]


@pytest.fixture(scope="module", params=STACKS, ids=[f"{stack}-{cc}" for stack, cc in STACKS])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    stack, cc = request.param
    text = EXPERIMENT.replace("STACK", stack).replace("CC", cc)
    return cwndlab.load(text).run(out=tmp_path_factory.mktemp("captures") / "results")


def capture(results: ResultSet, at: str) -> Path:
    return next(path for path in results.captures(0) if path.name.endswith(f"-{at}.pcap"))


def test_tshark_finds_nothing_malformed(results: ResultSet) -> None:
    bad = '_ws.malformed || tcp.checksum.status == "Bad" || ip.checksum.status == "Bad"'
    paths = results.captures(0)
    assert len(paths) == 3
    for path in paths:
        assert len(tshark(path, "frame.number")) > 1000
        assert tshark(path, "frame.number", keep=bad) == []


def test_retransmissions_in_the_sender_s_capture_are_the_simulator_s(results: ResultSet) -> None:
    rows = tshark(capture(results, "a"), "ip.src", "tcp.seq", "tcp.len", keep="tcp.len > 0")
    highest = None
    again = 0
    for source, sequence, length in rows:
        assert source == "10.0.0.1"
        first, last = int(sequence), (int(sequence) + int(length)) % 2**32
        # Below the highest sent, modulo 2^32.
        if (
            highest is not None
            and (highest - first) % 2**32 not in (0,)
            and (highest - first) % 2**32 < 2**31
        ):
            again += 1
        if highest is None or 0 < (last - highest) % 2**32 < 2**31:
            highest = last
    series = results.series(0, flow="f1", table="tcp")
    assert again > 0
    assert again == series["retransmits"].max()


def test_what_the_receiver_s_capture_lacks_was_dropped(results: ResultSet) -> None:
    sent = len(tshark(capture(results, "a"), "tcp.seq", keep="tcp.len > 0"))
    arrived = len(tshark(capture(results, "b"), "tcp.seq", keep="tcp.len > 0"))
    events = results.series(0, table="events")
    dropped = events.filter((events["kind"] == "drop") & events["seq"].is_not_null()).height
    assert dropped > 0
    assert sent - arrived == dropped


def test_tcptrace_sees_one_whole_connection(results: ResultSet) -> None:
    path = capture(results, "a")
    text = subprocess.run(
        [tool("tcptrace"), "-l", "-n", str(path)], check=True, capture_output=True, text=True
    ).stdout
    assert "complete conn: yes" in text
    unique = re.search(r"unique bytes sent:\s+(\d+)", text)
    assert unique and int(unique[1]) == 2_000_000
