"""`mtu` of links: what a path carries that takes less than its hosts' links, at first and once TCP knows."""

import re
from pathlib import Path
from typing import Any

import pytest

import cwndlab
from cwndlab.errors import CwndlabError

EXPERIMENT = """\
experiment: path-mtu
duration: {duration}s
hosts:
  a: {{stack: {stack}, rcvbuf: 200KB{a}}}
  b: {{stack: {stack}, rcvbuf: 200KB{a}}}
network:
  {family}
  dumbbell:
    left: [a]
    right: [b]
    access: {{rate: 1gbit, delay: {access}}}
    bottleneck:
      {{rate: 20mbit, delay: 10ms, mtu: {mtu}, overhead: 0, queue: {{kind: pfifo, limit: 500p}}{link}}}
flows: [{{name: f, from: a, to: b}}]
measure: {{from: {start}s, to: {duration}s}}
"""
DEFAULTS = {"stack": "linux-6.18", "mtu": 1400, "a": "", "link": "", "family": "", "access": "0ms"}
STACKS = [
    *("linux-3.9", "linux-6.8", "linux-6.18"),
    *("freebsd-9.2", "freebsd-13", "freebsd-15-current", "windows-7"),
]


def written(*, start: int = 2, duration: int = 4, **given: Any) -> str:
    return EXPERIMENT.format(start=start, duration=duration, **(DEFAULTS | given))


def goodput(tmp_path: Path, **given: Any) -> float:
    result = cwndlab.load(written(**given)).run(out=tmp_path / "results")
    return float(result.summary["goodput_mbps"][0])


@pytest.mark.parametrize("mtu", [1400, 576])
@pytest.mark.parametrize("stack", STACKS)
def test_segments_are_as_long_as_the_path_takes(tmp_path: Path, stack: str, mtu: int) -> None:
    options = 0 if stack == "windows-7" else 12
    # The link is full of packets as large as it takes.
    expected = 20 * (mtu - 40 - options) / mtu
    assert goodput(tmp_path, stack=stack, mtu=mtu) == pytest.approx(expected, rel=0.003)


@pytest.mark.parametrize("stack", ["linux-6.18", "freebsd-15-current"])
def test_the_first_window_is_lost_and_no_more(tmp_path: Path, stack: str) -> None:
    loaded = cwndlab.load(written(stack=stack, start=0, duration=2, access="5ms"))
    result = loaded.run(out=tmp_path / "results")
    rows = result.series(0, table="events").iter_rows(named=True)
    dropped = [(row["hop"], row["seq"], row["value"]) for row in rows if row["kind"] == "drop"]
    # Ten packets of 1,500 bytes, of which 52 are headers: the initial window, which has left when the
    # router's word comes back after ten milliseconds.
    assert dropped == [("bottleneck", 1448 * number, 1448) for number in range(10)]
    assert result.summary["rtos"][0] == 0


@pytest.mark.parametrize("stack", ["linux-6.18", "freebsd-15-current"])
def test_ipv6_is_told_by_packet_too_big(tmp_path: Path, stack: str) -> None:
    expected = 20 * (1280 - 60 - 12) / 1280
    found = goodput(tmp_path, stack=stack, mtu=1280, family="family: ipv6")
    assert found == pytest.approx(expected, rel=0.003)


PROBING = "net.ipv4.tcp_mtu_probing"
DETECTION = "net.inet.tcp.pmtud_blackhole_detection: 1"


@pytest.mark.parametrize(
    ("stack", "sysctl", "packet", "headers"),
    [
        # Nothing longer than a segment's headers ever arrives.
        ("linux-6.18", "", None, 52),
        ("freebsd-15-current", "", None, 52),
        ("windows-7", "", None, 40),
        # An MSS of 1,036 (1,024 bytes of payload) and upwards by halves of what is left of 1,460: 1,248,
        # 1,354 and not 1,407, with 40 bytes of headers.
        ("linux-6.18", f"{PROBING}: 1", 1394, 52),
        ("linux-6.18", f"{PROBING}: 2", 1394, 52),
        # The MSS of net.inet.tcp.pmtud_blackhole_mss, with headers; with timestamps nothing is detected.
        ("freebsd-15-current", f"{DETECTION}, net.inet.tcp.rfc1323: 0", 1240, 40),
        ("freebsd-15-current", DETECTION, None, 52),
    ],
)
def test_a_black_hole(tmp_path: Path, stack: str, sysctl: str, packet: int | None, headers: int) -> None:
    a = f", sysctl: {{{sysctl}}}" if sysctl else ""
    found = goodput(tmp_path, stack=stack, a=a, link=", icmp: false", start=8, duration=12)
    expected = 20 * (packet - headers) / packet if packet else 0
    assert found == pytest.approx(expected, rel=0.01)


def test_who_finds_nothing_out_is_refused() -> None:
    refused = re.escape("an MTU of 1400 on bottleneck; expected at least 1500 for segments of 1460 bytes")
    with pytest.raises(CwndlabError, match=refused):
        cwndlab.load(written(stack="smoltcp")).plan()
    with pytest.raises(CwndlabError, match=refused):
        cwndlab.load(written(stack="linux"), testbed="netns").plan()


def test_who_finds_nothing_out_is_refused_behind_one_who_does() -> None:
    both = "hosts.a.stack: [linux-6.18, smoltcp], hosts.b.stack: [linux-6.18, smoltcp]"
    text = written(stack="linux").replace(", rcvbuf: 200KB", "") + f"sweep: [{{zip: {{{both}}}}}]\n"
    with pytest.raises(CwndlabError, match="an MTU of 1400 on bottleneck; expected at least 1500"):
        cwndlab.load(text).plan()
