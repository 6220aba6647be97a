"""Captures of simulated runs, read by the tools people use: tshark, tcpdump and tcptrace."""

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cwndlab
from cwndlab.cli import app
from cwndlab.errors import InputError
from cwndlab.results.resultset import ResultSet
from experiments import dumbbell

pytestmark = pytest.mark.slow

EXPERIMENT = dumbbell(
    "captures",
    duration="6s",
    a="stack: STACK, cc: CC, sndbuf: 600KB",
    b="stack: STACK, rcvbuf: 600KB",
    bottleneck="rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 20p}, loss: {random: 0.5%}",
    flow="name: f1, from: a, to: b, app: bulk, bytes: 2MB",
    access="100mbit",
    more="record: {pcap: [a, b, {at: bottleneck, snaplen: 60}]}\n",
)

GROUNDTRUTH = Path(cwndlab.__file__).parents[2] / "groundtruth"

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


DATAGRAMS = dumbbell(
    "datagrams",
    duration="5s",
    a="stack: linux-6.8",
    b="stack: freebsd-13",
    bottleneck="rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 20p}",
    flow="name: load, from: a, to: b, app: bulk",
    access="100mbit",
    more="""\
  - {name: steady, from: a, to: b, app: {kind: udp-cbr, rate: 1mbit, payload: 1000}}
  - {name: call, from: b, to: a, app: voip}
  - {name: probe, from: a, to: b, app: {kind: ping, interval: 50ms}}
record: {pcap: [{at: a, snaplen: 65535}, {at: b, snaplen: 64}]}
""",
)
"""Everything but TCP beside a bulk transfer."""

NOT_TCP_BAD = "_ws.malformed || " + " || ".join(
    f'{layer}.checksum.status == "Bad"' for layer in ("ip", "udp", "icmp")
)


def checked(capture: Path, *fields: str, keep: str) -> list[list[str]]:
    """Fields of a capture whose checksums tshark verifies."""
    command = [tool("tshark"), "-r", str(capture), "-T", "fields", "-Y", keep]
    for preference in ("ip.check_checksum", "udp.check_checksum"):
        command += ["-o", f"{preference}:TRUE"]
    for field in fields:
        command += ["-e", field]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in text.splitlines()]


@pytest.fixture(scope="module")
def datagrams(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    return cwndlab.load(DATAGRAMS).run(out=tmp_path_factory.mktemp("datagrams") / "results")


def test_datagrams_are_well_formed(datagrams: ResultSet) -> None:
    whole = capture(datagrams, "a")
    assert checked(whole, "frame.number", keep=NOT_TCP_BAD) == []
    # tshark has looked: none is unverified but those of which only the beginning is there.
    sound = checked(whole, "udp.checksum.status", keep="udp")
    assert sound and all(status == ["1"] for status in sound)
    assert checked(capture(datagrams, "b"), "frame.number", keep="ip.checksum.status == 0") == []


def test_every_datagram_of_a_flow_is_in_its_sender_s_capture(datagrams: ResultSet) -> None:
    rows = checked(
        capture(datagrams, "a"),
        "ip.src",
        "udp.srcport",
        "udp.dstport",
        "udp.length",
        keep="udp.srcport > 9999",
    )
    steady = [row for row in rows if row[0] == "10.0.0.1"]
    assert {tuple(row) for row in steady} == {("10.0.0.1", "10001", "5201", "1008")}
    events = datagrams.series(0, flow="steady", table="events")
    known = datagrams.series(0, flow="steady", table="samples")
    arrived = known.filter(known["kind"] == "one-way-delay").height
    dropped = events.filter(events["kind"] == "drop").height
    # 125 a second; those of the last 60 ms are still on their way: 20 ms of delay, and 24 ms of full queue.
    assert arrived + dropped <= len(steady) <= arrived + dropped + 8
    assert arrived > 400
    # Of the other direction, this is the receiver.
    call = [row for row in rows if row[0] == "10.0.1.1"]
    known = datagrams.series(0, flow="call", table="samples")
    assert {tuple(row) for row in call} == {("10.0.1.1", "10002", "5201", "180")}
    assert len(call) == known.filter(known["kind"] == "one-way-delay").height > 200


def test_probes_have_their_answers(datagrams: ResultSet) -> None:
    rows = checked(
        capture(datagrams, "a"),
        "icmp.type",
        "icmp.ident",
        "icmp.seq",
        "icmp.resptime",
        "frame.len",
        keep="icmp",
    )
    asked = [row for row in rows if row[0] == "8"]
    answered = [row for row in rows if row[0] == "0"]
    assert [int(row[2]) for row in asked] == list(range(len(asked)))
    assert {row[4] for row in rows} == {"84"}
    samples = datagrams.series(0, flow="probe", table="samples")
    probes = samples.filter(samples["kind"] == "probe-rtt")
    measured = [value / 1e6 for value in probes["value"]]
    assert len(answered) == len(measured) > 0
    # tshark finds the request of each answer and the time between: what the run measured, in milliseconds.
    assert [float(row[3]) for row in answered] == pytest.approx(measured, abs=1e-3)


def text(path: Path, *options: str) -> list[str]:
    outcome = CliRunner().invoke(app, ["data", "trace", str(path), "--text", *options])
    assert outcome.exit_code == 0, outcome.stderr
    return outcome.stdout.splitlines()


def tcpdump(path: Path) -> list[str]:
    command = [tool("tcpdump"), "-n", "-ttttt", "-r", str(path)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if "Flags [" in line]


def test_text_is_that_of_tcpdump(results: ResultSet) -> None:
    for point in ("a", "b"):
        lines = text(capture(results, point))
        assert len(lines) > 1000
        assert lines == tcpdump(capture(results, point))
    assert any("sack" in line for line in text(capture(results, "b")))


def test_text_of_a_recorded_stack_is_that_of_tcpdump(tmp_path: Path) -> None:
    recording = GROUNDTRUTH / "freebsd/stack/f13rack_cubic_10m_40ms_b90.pcap.gz"
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(gzip.decompress(recording.read_bytes()))
    assert text(recording) == tcpdump(whole)
    assert text(recording, "--limit", "3") == text(whole)[:3]


def test_flights_are_the_segments_between_acknowledgements(results: ResultSet) -> None:
    lines, packets = text(capture(results, "a"), "--flights"), text(capture(results, "a"))
    length = re.compile(r"length (\d+)$")

    def payload(rows: list[str]) -> int:
        return sum(int(found[1]) for row in rows if (found := length.search(row)))

    assert len(lines) < len(packets)
    assert payload(lines) == payload(packets)


def test_options_of_the_text_need_it(results: ResultSet) -> None:
    outcome = CliRunner().invoke(app, ["data", "trace", str(capture(results, "a")), "--flights"])
    assert isinstance(outcome.exception, InputError)
