"""Cuts a capture between two packets."""

import struct

FILE_HEADER, PACKET_HEADER = 24, struct.Struct("<IIII")
"""Headers of a pcap file and of each of its packets: seconds, nanoseconds, bytes kept, bytes there were."""
MAX_PACKET = 1 << 18
"""Bytes of a packet that no capture exceeds."""


def whole(data: bytes, room: int, *, first: bool) -> int:
    """Number of bytes of some packets that fit into `room` without cutting one; `room` if they are not to be
    read.

    `first`: they begin with the header of the file.
    """
    at = FILE_HEADER if first else 0
    while at + PACKET_HEADER.size <= len(data):
        _, fraction, kept, _ = PACKET_HEADER.unpack_from(data, at)
        if fraction >= 10**9 or kept > MAX_PACKET:
            return room
        after = at + PACKET_HEADER.size + kept
        if after > room:
            break
        at = after
    return min(at, room)
