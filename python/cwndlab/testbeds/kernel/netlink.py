"""Messages of rtnetlink(7) as bytes, which the agent in a guest sends: interfaces, addresses, routes, queue
disciplines.

Interfaces are called by their number, which whoever makes one chooses: nothing has to be asked for.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FIRST_NODE = 100
"""File descriptor of the first node's namespace in the agent (crates/agent/src/guest/node.rs)."""
LOOPBACK = 1
"""Number of the interface `lo` of every namespace."""

_REQUEST, _ACK, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x200, 0x400
_NEW = _REQUEST | _ACK | _EXCLUSIVE | _CREATE
_CHANGE = _REQUEST | _ACK
_LINK, _ADDRESS, _ROUTE, _NEIGHBOUR, _QDISC, _CLASS = 16, 20, 24, 28, 36, 40
_UP, _MULTICAST = 0x1, 0x1000
_INET, _INET6 = 2, 10
_PERMANENT, _ONLINK = 0x80, 0x4
_NO_DETECTION = 0x2
"""IFA_F_NODAD: an address that is used at once, without looking for duplicates."""
_NESTED = 0x8000
_PLAIN = ("pfifo", "bfifo", "netem")
"""Queue disciplines whose options begin with a structure, not with an attribute."""
ROOT = 0xFFFFFFFF
"""The parent of what is at the interface itself (TC_H_ROOT)."""

Options = bytes
"""The content of TCA_OPTIONS."""


def attribute(kind: int, value: bytes | int | str) -> bytes:
    """An attribute (netlink(7)): a number of 32 bits, a text with its end, or bytes as they are."""
    if isinstance(value, int):
        value = struct.pack("=I", value)
    elif isinstance(value, str):
        value = value.encode() + b"\0"
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


def attributes(values: Mapping[int, bytes | int | str | None]) -> bytes:
    """Attributes by their number; those that are None are left out."""
    return b"".join(attribute(kind, value) for kind, value in values.items() if value is not None)


def _message(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body


def _interface(index: int, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", 0, 0, index, flags, change)


def hardware_address(cable: int, end: int) -> bytes:
    """The MAC address of an end of a cable: one that is given locally."""
    return struct.pack(">BBHBB", 2, 0x63, cable, 0, end)


def cable(near: tuple[int, str, bytes], far: tuple[int, str, bytes], far_node: int, mtu: int) -> bytes:
    """Two interfaces and what lies between them: number, name and hardware address of each; the far one is
    in a node of its own."""
    far_index, far_name, far_address = far
    peer = _interface(far_index) + attributes(
        {3: far_name, 4: mtu, 1: far_address, 28: FIRST_NODE + far_node}
    )
    index, name, address = near
    information = attribute(1, "veth") + attribute(2, attribute(1, peer))
    body = _interface(index) + attributes({3: name, 4: mtu, 1: address, 18: information})
    return _message(_LINK, _NEW, body)


def up(index: int, *, multicast: bool = True) -> bytes:
    """Switch an interface on, as one that has multicast or not."""
    return _message(_LINK, _CHANGE, _interface(index, _UP, _UP if multicast else _UP | _MULTICAST))


def address(index: int, own: str) -> bytes:
    """Give an interface an address."""
    family, packed = _packed(own)
    body = struct.pack("=BBBBi", family, 8 * len(packed), _NO_DETECTION if family == _INET6 else 0, 0, index)
    return _message(_ADDRESS, _NEW, body + attributes({2: packed, 1: packed}))


def neighbour(index: int, who: str, hardware: bytes) -> bytes:
    """Say which hardware address somebody has, for ever."""
    family, packed = _packed(who)
    body = struct.pack("=BxHiHBB", family, 0, index, _PERMANENT, 0, 0)
    return _message(_NEIGHBOUR, _NEW, body + attributes({1: packed, 2: hardware}))


def route(to: str, gateway: str, index: int, source: str | None, mss: int | None) -> bytes:
    """Lead packets to an address over an interface; of a host, with its source address and its MSS."""
    family, packed = _packed(to)
    body = struct.pack("=BBBBBBBBI", family, 8 * len(packed), 0, 0, 254, 4, 0, 1, _ONLINK)
    told = attributes(
        {
            1: packed,
            4: index,
            5: ipaddress.ip_address(gateway).packed,
            7: None if source is None else ipaddress.ip_address(source).packed,
            8: None if mss is None else attribute(8, mss),
        }
    )
    return _message(_ROUTE, _NEW, body + told)


def _packed(text: str) -> tuple[int, bytes]:
    """The kernel's number of an address's family, and the address as bytes."""
    address = ipaddress.ip_address(text)
    return _INET if address.version == 4 else _INET6, address.packed


def qdisc(
    index: int,
    kind: str,
    options: Options,
    *,
    handle: int,
    parent: int = ROOT,
    overhead: int = 0,
    new: bool = True,
) -> bytes:
    """Put a queue discipline in place, or change it; it counts packets as so many bytes longer."""
    body = struct.pack("=BxHiIII", 0, 0, index, handle, parent, 0)
    told = attribute(1, kind) + attribute(2 if kind in _PLAIN else 2 | _NESTED, options)
    if overhead:
        # struct tc_sizespec: cell_log, size_log, cell_align, overhead, linklayer, ...
        told += attribute(8, attribute(1, struct.pack("=BBhiIIII", 0, 0, 0, overhead, 1, 0, 0, 0)))
    return _message(_QDISC, _NEW if new else _CHANGE, body + told)


class Bucket(NamedTuple):
    """A token bucket: bytes per second, and most bytes in it."""

    bytes_per_s: int
    burst: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Bucket:
        """Return the bucket of a Scenario's shaper."""
        return cls(told["rate_bps"] // 8, told["burst_bytes"])

    @property
    def rate(self) -> bytes:
        """The rate as the kernel takes it."""
        return _rate(self.bytes_per_s)

    @property
    def wide(self) -> bytes | None:
        """The rate where 32 bits are too few for it."""
        return struct.pack("=Q", self.bytes_per_s) if self.bytes_per_s >> 32 else None

    @property
    def ticks(self) -> int:
        """The time that its bytes take."""
        return _ticks(self.burst, self.bytes_per_s)


def htb_class(
    index: int, rate: Bucket, ceil: Bucket, quantum: int, *, handle: int, parent: int, new: bool = True
) -> bytes:
    """The one class of HTB: a packet leaves while neither bucket is overdrawn."""
    parameters = struct.pack("=12s12sIIIII", rate.rate, ceil.rate, rate.ticks, ceil.ticks, quantum, 0, 0)
    body = struct.pack("=BxHiIII", 0, 0, index, handle, parent, 0)
    options = attributes({1: parameters, 6: rate.wide, 7: ceil.wide})
    return _message(_CLASS, _NEW if new else _CHANGE, body + attribute(1, "htb") + attribute(2, options))


def htb() -> Options:
    """HTB whose unclassified packets go to class 1."""
    return attribute(2, struct.pack("=IIIII", 3, 10, 1, 0, 0))


def tbf(bucket: Bucket, peak: Bucket | None, limit: int) -> Options:
    """Token buckets: a packet needs as many tokens as it has bytes, of the peak rate's too."""
    second, mtu = (bytes(12), 0) if peak is None else (peak.rate, peak.ticks)
    parameters = struct.pack("=12s12sIII", bucket.rate, second, limit, bucket.ticks, mtu)
    more = {5: peak.wide, 7: peak.burst} if peak is not None else {}
    return attributes({1: parameters, 4: bucket.wide, 6: bucket.burst, **more})


def _rate(bytes_per_s: int) -> bytes:
    """struct tc_ratespec of a rate on Ethernet, for which the kernel needs no tables."""
    return struct.pack("=BBHhHI", 0, 1, 0, 0, 0, min(bytes_per_s, 0xFFFFFFFF))


def _ticks(size: int, bytes_per_s: int) -> int:
    """Time that so many bytes take, in the kernel's ticks of 64 ns, rounded up."""
    return -(-size * 10**9 // (bytes_per_s * 64))


def netem(
    *,
    delay_ns: int,
    limit: int,
    loss: int = 0,
    duplicate: int = 0,
    corrupt: int = 0,
    jitter_ns: int = 0,
    in_order: bool = False,
    table: Sequence[int] | None = None,
    gilbert: tuple[int, int, int, int] | None = None,
) -> Options:
    """netem: probabilities in parts of 2**32, `table` of a jitter's distribution in 8192ths, `gilbert` the
    probabilities from good to bad, back, of passing in the bad state, and of loss in the good one.

    `in_order`: a packet that would overtake another waits for it. That is what netem does where it has a
    rate: one so high that no packet takes time.
    """
    head = struct.pack("=IIIIII", 0, limit, loss, 0, duplicate, 0)
    return head + attributes(
        {
            10: struct.pack("=q", delay_ns),
            11: struct.pack("=q", jitter_ns),
            4: struct.pack("=II", corrupt, 0) if corrupt else None,
            6: struct.pack("=IiIi", 0xFFFFFFFF, 0, 0, 0) if in_order else None,
            8: struct.pack("=Q", 1 << 60) if in_order else None,
            2: None if table is None else struct.pack(f"={len(table)}h", *table),
            5: None if gilbert is None else attribute(2, struct.pack("=IIII", *gilbert)),
        }
    )
