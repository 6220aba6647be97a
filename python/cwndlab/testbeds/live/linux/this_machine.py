"""The way into this machine (`lab.Reach`): files, programs, adjtimex(2), rtnetlink, Linux's ethtool ioctls.

What it reads belongs to the network namespace of the thread that asks.
"""

import ctypes
import fcntl
import glob
import os
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cwndlab import _native
from cwndlab.testbeds import programs
from cwndlab.testbeds.live.shell import SECRETS

_SIOCETHTOOL, _SIOCGIFMTU, _SIOCGIFTXQLEN = 0x8946, 0x8921, 0x8942
"""linux/sockios.h."""
_GSTRINGS, _GSSET_INFO, _GFEATURES, _FEATURES = 0x1B, 0x37, 0x3A, 4
"""ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO, ETHTOOL_GFEATURES, ETH_SS_FEATURES (ethtool.h)."""
_NAME = 32
"""ETH_GSTRING_LEN."""
_MOST_TEXT = 1 << 16
"""Bytes of a file that are read."""
_UNSYNCHRONISED, _NANOSECONDS = 0x40, 0x2000
"""STA_UNSYNC and STA_NANO of adjtimex(2)."""
_COUNTERS = ("direct_pkts",)
"""Counters that queue disciplines show among their options."""


class ThisMachine:
    """The machine and the network namespace of whoever calls."""

    def files(self, *patterns: str) -> dict[str, str]:
        """The text of each readable file by path; see `lab.Reach`."""
        found = {}
        for pattern in patterns:
            for path in _below(pattern) if pattern.endswith("/") else sorted(glob.glob(pattern)):  # noqa: PTH207
                if path.endswith(SECRETS):
                    continue
                try:
                    found[path] = _text(path)
                except OSError:  # of one that can only be written, or has no value
                    continue
        return found

    def writable(self, path: str) -> bool:
        """Whether anybody may write a file."""
        try:
            return bool(Path(path).stat().st_mode & 0o222)
        except OSError:
            return True  # it is gone, which is a change

    def uname(self) -> str:
        """System, name, release, version and architecture."""
        return " ".join(os.uname())

    def clock(self) -> dict[str, Any]:
        """Readings of the clock by adjtimex(2). Empty where the call fails."""
        told = _Timex()
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(told)) < 0:
            return {}
        return {
            "synchronised": not told.status & _UNSYNCHRONISED,
            "offset_ns": told.offset * (1 if told.status & _NANOSECONDS else 1000),
            "frequency_ppm": round(told.freq / 65536, 3),
            "max_error_us": told.maxerror,
            "estimated_error_us": told.esterror,
        }

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """The interfaces of the namespace by name."""
        from pyroute2 import IPRoute

        with IPRoute() as route:
            disciplines = list(route.get_qdiscs())
        found = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for index, name in socket.if_nameindex():
                found[name] = {
                    "mtu": _number(control, name, _SIOCGIFMTU),
                    "tx_queue": _number(control, name, _SIOCGIFTXQLEN),
                    "offloads": _offloads(control, name),
                    "qdiscs": [_qdisc(each) for each in disciplines if each["index"] == index],
                }
        return found

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        Path(path).write_text(text, encoding="ascii")

    def program(self, name: str, purpose: str) -> str:
        """Path of a program."""
        return programs.need(name, purpose)

    def run(self, command: Sequence[str], text: str = "", undo: Sequence[str] = ()) -> str:
        """Run a command and return its output; nothing is undone, as all runs are in places that go with
        them.
        """
        path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
        )
        if done.returncode:
            raise OSError(" ".join(done.stderr.split()))
        return done.stdout

    def set_offloads(self, interface: str, *, tso: bool, gro: bool) -> None:
        """Switch offloads of an interface."""
        _native.set_offloads(None, interface, tso=tso, gro=gro)


class _Timex(ctypes.Structure):
    """struct timex (linux/timex.h), with `modes` 0: nothing is set."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),
    )


def _below(directory: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _below(f"{entry.path}/")
            else:
                yield entry.path


def _text(path: str) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _MOST_TEXT).decode(errors="replace")
    finally:
        os.close(handle)


def _qdisc(message: Any) -> dict[str, Any]:
    return {
        "kind": str(message.get_attr("TCA_KIND")),
        "handle": f"{message['handle'] >> 16:x}:",
        "parent": f"{message['parent'] >> 16:x}:{message['parent'] & 0xFFFF:x}",
        "options": _plain(message.get_attr("TCA_OPTIONS")),
    }


def _plain(value: Any) -> Any:
    """Options of a netlink message as JSON has them: attributes by name, without what is counted."""
    if isinstance(value, Mapping):
        plain = {
            str(key): _plain(own) for key, own in value.items() if key not in ("attrs", "header", *_COUNTERS)
        }
        return plain | {str(key): _plain(own) for key, own in value.get("attrs", ())}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | str | None) else str(value)


def _number(control: socket.socket, name: str, request: int) -> int | None:
    """Ask for a number of an interface. None where the interface is gone."""
    try:
        told = fcntl.ioctl(control, request, struct.pack("16si12x", name.encode(), 0))
    except OSError:
        return None
    return int(struct.unpack_from("16si", told)[1])


def _offloads(control: socket.socket, name: str) -> list[str] | None:
    """The features of an interface that are on, by ethtool's names, such as tx-tcp-segmentation."""
    try:
        features = _feature_names(control, name)
        blocks = -(-len(features) // 32)
        told = _ethtool(control, name, struct.pack("=II", _GFEATURES, blocks) + bytes(16 * blocks))
    except OSError:
        return None
    active = [struct.unpack_from("=I", told, 8 + 16 * block + 8)[0] for block in range(blocks)]
    return sorted(
        feature for bit, feature in enumerate(features) if feature and active[bit // 32] >> bit % 32 & 1
    )


def _feature_names(control: socket.socket, name: str) -> list[str]:
    told = _ethtool(control, name, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _FEATURES, 0))
    count = struct.unpack_from("=I", told, 16)[0]
    strings = _ethtool(control, name, struct.pack("=III", _GSTRINGS, _FEATURES, count) + bytes(_NAME * count))
    return [
        strings[12 + _NAME * place : 12 + _NAME * (place + 1)].split(b"\0", 1)[0].decode(errors="replace")
        for place in range(count)
    ]


def _ethtool(control: socket.socket, name: str, command: bytes) -> bytes:
    """Send a command to the ethtool ioctl and return the buffer that the ioctl filled."""
    buffer = ctypes.create_string_buffer(command, len(command))
    request = struct.pack("16sP", name.encode(), ctypes.addressof(buffer))
    fcntl.ioctl(control, _SIOCETHTOOL, request)
    return buffer.raw
