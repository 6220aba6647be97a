"""Layers between the frame and TCP in captures, as tshark reads them, and what is not read; xz and zstd."""

import json
import lzma
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cwndlab import errors
from cwndlab.cli import app
from cwndlab.formats import base, compression, importers
from cwndlab.formats.capture import Options


def ipv4(protocol: int, inner: bytes, there: bool = True) -> bytes:
    ends = b"\x0a\0\0\1\x0a\0\0\2" if there else b"\x0a\0\0\2\x0a\0\0\1"
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 1, 0, 64, protocol, 0) + ends + inner


def segment(number: int) -> bytes:
    """Ten bytes of data, or, of every second number, their acknowledgement."""
    there, round_ = number % 2 == 0, number // 2
    ports = (4000, 80) if there else (80, 4000)
    seq, ack = (1 + 10 * round_, 1) if there else (1, 11 + 10 * round_)
    header = struct.pack(">HHIIBBHHH", *ports, seq, ack, 0x50, 0x10, 1000, 0, 0)
    return ipv4(6, header + (bytes(10) if there else b""), there)


def udp(port: int, inner: bytes) -> bytes:
    return ipv4(17, struct.pack(">HHHH", 5555, port, 8 + len(inner), 0) + inner)


def ethernet(ethertype: int, inner: bytes) -> bytes:
    return b"\x02\0\0\0\0\2\x02\0\0\0\0\1" + struct.pack(">H", ethertype) + inner


def gre(header: bytes) -> Callable[[bytes], bytes]:
    return lambda ip: ethernet(0x0800, ipv4(47, header + ip))


def gtp(ip: bytes) -> bytes:
    return ethernet(0x0800, udp(2152, struct.pack(">BBHI", 0x30, 255, len(ip), 1) + ip))


def pppoe(ip: bytes) -> bytes:
    return struct.pack(">BBHHH", 0x11, 0, 1, len(ip) + 2, 0x21) + ip


def nflog(ip: bytes) -> bytes:
    payload = struct.pack("<HH", len(ip) + 4, 9) + ip
    return struct.pack("<BBHHHHBB", 2, 0, 0, 8, 1, 8, 3, 0) + payload + bytes(-len(payload) % 4)


LAYERS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "PPPoE": (1, lambda ip: ethernet(0x8864, pppoe(ip))),
    "PPP": (9, lambda ip: b"\xff\x03\0\x21" + ip),
    "MPLS": (1, lambda ip: ethernet(0x8847, b"\0\1\0\x40\0\2\1\x40" + ip)),
    "Ethernet in MPLS": (1, lambda ip: ethernet(0x8847, b"\0\2\1\x40\0\0\0\0" + ethernet(0x0800, ip))),
    "SNAP": (1, lambda ip: ethernet(len(ip) + 8, b"\xaa\xaa\3\0\0\0\x08\0" + ip)),
    "NFLOG": (239, nflog),
    "GRE": (1, gre(b"\x20\0\x08\0\0\0\0\1")),
    "Ethernet in GRE": (1, lambda ip: gre(b"\0\0\x65\x58")(ethernet(0x0800, ip))),
    "IP in IP": (101, lambda ip: ipv4(4, ip)),
    "VXLAN": (1, lambda ip: ethernet(0x0800, udp(4789, b"\x08\0\0\0\0\0\1\0" + ethernet(0x0800, ip)))),
    "Geneve": (1, lambda ip: ethernet(0x0800, udp(6081, b"\0\0\x65\x58\0\0\1\0" + ethernet(0x0800, ip)))),
    "GTP": (1, gtp),
    "C-HDLC": (104, lambda ip: b"\x0f\0\x08\0" + ip),
    "VN-tag": (1, lambda ip: ethernet(0x8926, b"\x80\0\0\1\x81\0\0\6\x08\0" + ip)),
}


def pcap(link: int, frames: list[bytes]) -> bytes:
    records = [
        struct.pack("<IIII", 100 + number, 0, len(frame), len(frame)) + frame
        for number, frame in enumerate(frames)
    ]
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link) + b"".join(records)


def written(path: Path, name: str, count: int = 8) -> Path:
    link, wrap = LAYERS[name]
    path.write_bytes(pcap(link, [wrap(segment(number)) for number in range(count)]))
    return path


def trace(*arguments: object) -> tuple[int, str, str]:
    outcome = CliRunner().invoke(app, ["data", "trace", *map(str, arguments)])
    if isinstance(outcome.exception, errors.InputError):
        return outcome.exception.exit_code, outcome.stdout, f"error: {outcome.exception}\n"
    return outcome.exit_code, outcome.stdout, outcome.stderr


@pytest.mark.parametrize("name", LAYERS)
def test_tcp_behind_every_layer_is_found(tmp_path: Path, name: str) -> None:
    file = written(tmp_path / "x.pcap", name)
    code, out, said = trace(file)
    assert (code, said) == (0, "")
    assert json.loads(out)["forward"]["payload_bytes"] == 40
    code, out, _ = trace(file, "--text")
    assert code == 0 and out.count("Flags [") == 8


@pytest.mark.slow
# tshark guesses nothing of what an MPLS label other than IP stands for.
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "Ethernet in MPLS"])
def test_tshark_finds_the_same_segments(tmp_path: Path, name: str) -> None:
    file = written(tmp_path / "x.pcap", name)
    fields = [word for field in ("tcp.srcport", "tcp.seq_raw", "tcp.len") for word in ("-e", field)]
    command = ["tshark", "-r", str(file), "-Y", "tcp", "-T", "fields", *fields]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    sent = [row.split("\t") for row in rows if row.startswith("4000")]
    assert len(rows) == 8 and [int(seq) for _, seq, _ in sent] == [1, 11, 21, 31]
    forward = json.loads(trace(file)[1])["forward"]
    assert forward["payload_bytes"] == sum(int(length) for _, _, length in sent)
    assert forward["packets"] == len(sent)


def test_what_is_not_read_is_counted_and_said(tmp_path: Path) -> None:
    arp, wifi = ethernet(0x0806, bytes(28)), tmp_path / "wifi.pcap"
    mixed = tmp_path / "mixed.pcap"
    others = [arp, arp, ethernet(0x0800, udp(53, bytes(30)))]
    mixed.write_bytes(pcap(1, others + [ethernet(0x0800, segment(number)) for number in range(8)]))
    said = "mixed.pcap: 3 packets not read as TCP: 2 ARP, 1 UDP"
    for options in ([], ["--text"]):
        code, out, error = trace(mixed, *options)
        assert code == 0 and out and error == said + "\n"
    assert importers.read([mixed], Options())[0].recording.warnings == (said,)
    wifi.write_bytes(pcap(105, [bytes(60)] * 5))
    why = f"{wifi}: no TCP packet in this capture: 5 packets not read as TCP: 5 IEEE 802.11 (link type 105)"
    for options in ([], ["--text"]):
        code, out, error = trace(wifi, *options)
        assert (code, out, error) == (2, "", f"error: {why}\n")
    with pytest.raises(errors.InputError) as refused:
        importers.read([wifi], Options())
    assert str(refused.value) == why


def packed(kind: str, data: bytes) -> bytes:
    if kind == "xz":
        return lzma.compress(data[:100]) + lzma.compress(data[100:])
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize("kind", ["xz", "zstd"])
def test_files_in_xz_and_zstd_are_read(tmp_path: Path, kind: str) -> None:
    plain = written(tmp_path / "x.pcap", "VXLAN", 40)
    file = tmp_path / "packed"
    file.write_bytes(packed(kind, plain.read_bytes()))
    assert trace(file)[:2] == trace(plain)[:2]
    assert trace(file, "--text")[:2] == trace(plain, "--text")[:2]
    assert importers.read([file], Options())[0].recording.flows == ("10.0.0.1:4000-10.0.0.2:80",)
    text = b"a line\n" * 400_000
    file.write_bytes(packed(kind, text))
    assert b"".join(base.pieces(file)()) == text
    assert base.head(file) == text[: base.HEAD_BYTES]
    file.write_bytes(packed(kind, text)[:-5])
    with pytest.raises(errors.InputError, match=f"not whole as a {kind} file"):
        b"".join(base.pieces(file)())


@pytest.mark.parametrize("kind", ["xz", "zstd"])
def test_what_a_file_in_xz_or_zstd_holds_is_bounded(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "packed"
    file.write_bytes(packed(kind, pcap(1, [bytes(1000)] * 3000)))
    monkeypatch.setattr(base, "MAX_BYTES", 2 << 20)
    with pytest.raises(errors.InputError, match="holds more than 2 MiB"):
        b"".join(base.pieces(file)())
    monkeypatch.setattr(compression, "MAX_CAPTURE", 2 << 20)
    code, _, error = trace(file)
    assert code == 2 and "holds more than 0 GiB, decompressed" in error
