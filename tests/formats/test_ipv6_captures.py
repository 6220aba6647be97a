"""Captures of IPv6: read as those of IPv4, whatever extension headers stand before TCP."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cwndlab
from cwndlab.formats import importers
from cwndlab.formats.capture import Options, _Stream
from cwndlab.results.resultset import ResultSet

EXPERIMENT = """
experiment: captures
duration: 4s
hosts: {a: {stack: linux-6.18, cc: cubic}, b: {stack: linux-6.18}}
network:
  family: ipv6
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 30p}, loss: {random: 0.5%}}
flows: [{name: f, from: a, to: b, bytes: 2MB}]
repeat: 1
record: {pcap: [a, {at: b, snaplen: 60}]}
"""
HEADER = 40
"""Bytes of the header of IPv6 (RFC 8200)."""
KINDS = (0, 43, 60, 135, 139, 140, 44, 51)
"""Hop-by-hop, routing and destination options, mobility, host identity, Shim6, fragment, authentication."""


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    return cwndlab.load(EXPERIMENT).run(out=tmp_path_factory.mktemp("ipv6") / "truth")


def capture(results: ResultSet, end: str) -> Path:
    found = (path for path in results.captures(0) if path.name.endswith(f"-{end}.pcap"))
    return next(found)


def records(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Time, length on the wire and bytes kept of each packet of a pcap file."""
    at = 24
    while at < len(data):
        kept, size = struct.unpack_from("<II", data, at + 8)
        yield data[at : at + 8], size, data[at + 16 : at + 16 + kept]
        at += 16 + kept


def extended(packet: bytes, size: int, drawn: random.Random) -> tuple[bytes, int]:
    """A packet with extension headers of drawn kinds and lengths, and its length on the wire."""
    following, between = packet[6], b""
    for kind in drawn.choices(KINDS, k=drawn.randint(1, 4)):
        units = drawn.choice([0, 1, 2, drawn.randint(3, 255)])
        match kind:
            case 44:
                header = bytes(8)
            case 51:
                units = max(units, 1)
                header = bytes([0, units]) + bytes((units + 2) * 4 - 2)
            case _:
                header = bytes([0, units]) + bytes((units + 1) * 8 - 2)
        between = bytes([following]) + header[1:] + between
        following = kind
    length = struct.pack(">H", size - HEADER + len(between))
    head = packet[:4] + length + bytes([following]) + packet[7:HEADER]
    return head + between + packet[HEADER:], size + len(between)


def found(path: Path, out: Path) -> ResultSet:
    return importers.results([path], Options(), out)


@pytest.mark.parametrize("end", ["a", "b"])
def test_extension_headers_of_every_length_change_nothing_of_the_connection(
    truth: ResultSet, end: str, tmp_path: Path
) -> None:
    plain, drawn = capture(truth, end), random.Random(7)
    data = plain.read_bytes()
    rewritten = bytearray(data[:24])
    # Room for the longest packets.
    rewritten[16:20] = struct.pack("<I", 65_535)
    for when, size, packet in records(data):
        longer, on_wire = extended(packet, size, drawn)
        rewritten += when + struct.pack("<II", len(longer), on_wire) + longer
    other = tmp_path / "extended.pcap"
    other.write_bytes(rewritten)
    one, two = found(plain, tmp_path / "one"), found(other, tmp_path / "two")
    assert two.summary["flow"].to_list() == ["[fd00::1]:10000-[fd00::1:1]:5201"]
    assert two.series(0)["delivered_bytes"].max() == 2_000_000
    for table in ("tcp", "tcp_info", "events"):
        (own, others) = (results.series(0, table=table) for results in (one, two))
        # Longer packets alone take more of a link.
        assert own.drop("arrived_bytes", strict=False).equals(others.drop("arrived_bytes", strict=False)), (
            table
        )


@pytest.mark.parametrize(
    ("source", "target", "size"), [("fd00::1", "fd00::1:1", 1428), ("10.0.0.1", "10.0.1.1", 1448)]
)
def test_segments_of_a_connection_without_its_handshake_are_those_of_its_version(
    source: str, target: str, size: int
) -> None:
    nothing: Any = None
    stream = _Stream(
        capture=nothing,
        path=Path("offload.pcap"),
        connection=0,
        backward=False,
        opener=(source, 10_000),
        ends=(source, 10_000, target, 5201),
        first_seq=None,
        # Two segments as one, as offloads hand them to whoever captures.
        sender={"largest_payload": 2 * size},
        receiver={"mss": None},
    )
    assert stream.mss == size
