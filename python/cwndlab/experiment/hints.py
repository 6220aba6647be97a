"""Hints: what people who come from other tools write, and what it is called here."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from fractions import Fraction

from cwndlab.errors import nearest

WORDS: Mapping[str, tuple[str, ...]] = {
    # Queue disciplines
    "droptail": ("pfifo",),
    "taildrop": ("pfifo",),
    "fifo": ("pfifo",),
    "fifofast": ("pfifo",),
    "pfifofast": ("pfifo",),
    "mq": ("pfifo",),
    "none": ("pfifo",),
    "noqueue": ("pfifo",),
    "sfq": ("fq_codel",),
    "fqcodel": ("fq_codel",),
    "fqpie": ("fq_pie",),
    "wred": ("red",),
    "ared": ("red",),
    "l4s": ("dualpi2",),
    # Applications
    "iperf": ("bulk",),
    "iperf2": ("bulk",),
    "iperf3": ("bulk",),
    "netperf": ("bulk",),
    "nuttcp": ("bulk",),
    "ftp": ("bulk",),
    "tcp": ("bulk",),
    "download": ("bulk",),
    "upload": ("bulk",),
    "cbr": ("udp-cbr",),
    "udp": ("udp-cbr",),
    "vbr": ("udp-vbr",),
    "onoff": ("on-off",),
    "http": ("request-response",),
    "web": ("request-response", "background"),
    "rpc": ("request-response",),
    "dash": ("video",),
    "streaming": ("video",),
    "call": ("voip",),
    "icmp": ("ping",),
    "webrtc": ("media",),
    "scream": ("media",),
    "gcc": ("media",),
    "rtp": ("media",),
    # Congestion controls
    "newreno": ("reno",),
    "reno": ("newreno",),
    "bbr1": ("bbr",),
    "bbrv1": ("bbr",),
    # Keys
    "bandwidth": ("rate", "bottleneck"),
    "bw": ("rate",),
    "capacity": ("rate",),
    "speed": ("rate",),
    "bitrate": ("rate",),
    "datarate": ("rate",),
    "linkspeed": ("rate",),
    "latency": ("delay",),
    "propagation": ("delay",),
    "owd": ("delay",),
    "lossrate": ("loss",),
    "plr": ("loss",),
    "drop": ("loss",),
    "qdisc": ("queue",),
    "aqm": ("queue",),
    "buffer": ("queue",),
    "buffersize": ("queue",),
    "queuesize": ("limit", "queue"),
    "qlen": ("limit", "queue"),
    "length": ("duration", "limit"),
    "size": ("bytes", "limit"),
    "os": ("stack",),
    "system": ("stack",),
    "kernel": ("stack",),
    "tcp_congestion_control": ("cc",),
    "congestioncontrol": ("cc",),
    "congestion": ("cc",),
    "algorithm": ("cc",),
    "variant": ("cc",),
    "sysctls": ("sysctl",),
    "rwnd": ("rcvbuf",),
    "window": ("rcvbuf",),
    "rmem": ("rcvbuf",),
    "wmem": ("sndbuf",),
    "src": ("from",),
    "source": ("from",),
    "sender": ("from",),
    "client": ("from",),
    "dst": ("to",),
    "dest": ("to",),
    "destination": ("to",),
    "receiver": ("to",),
    "server": ("to",),
    "application": ("app",),
    "traffic": ("app", "flows"),
    "begin": ("start",),
    "end": ("stop",),
    "parallel": ("count",),
    "number": ("count",),
    "time": ("duration",),
    "runtime": ("duration",),
    "simtime": ("duration",),
    "runs": ("repeat",),
    "iterations": ("repeat",),
    "replications": ("repeat",),
    "repetitions": ("repeat",),
    "warmup": ("measure",),
    "nodes": ("hosts",),
    "topology": ("network",),
    "parameters": ("sweep",),
    "vary": ("sweep",),
    "name": ("experiment",),
    "title": ("experiment",),
    "dump": ("pcap",),
    "capture": ("pcap",),
    "tcpdump": ("pcap",),
}
"""Meanings of a word, by the word in small letters, without `-`, `_` and spaces where no entry has them: the
first that is known at the place counts.
"""

SENTENCES: Mapping[str, str] = {
    "rtt": "`delay` is one way, so 40ms of RTT are delay: 20ms",
    "basertt": "`delay` is one way, so 40ms of RTT are delay: 20ms",
    "ber": "`loss` and `corrupt` are shares of packets, such as corrupt: 0.1%",
    "quic": "flows are TCP, or datagrams such as udp-cbr",
}
"""Hints on words of which nothing known is the meaning."""

SINGLE: Mapping[str, str] = {
    "loss": "{{random: {0}}}",
    "jitter": "{{sd: {0}}}",
    "egress": "{{delay: {0}}}",
    "link": "{{rate: {0}}}",
    "measure": "{{from: {0}}}",
    "nth": "{{every: {0}}}",
    "ack_every": "{{segments: {0}}}",
    "switch": "{{buffer: {0}}}",
}
"""Meaning that a single value in a section's place most probably has, by section."""

UNITS: Mapping[str, tuple[str, ...]] = {
    "m": ("min", "mbit", "MB"),
    "mbps": ("mbit",),
    "mbit/s": ("mbit",),
    "mbits": ("mbit",),
    "mb/s": ("mbit",),
    "mb": ("mbit",),
    "kbps": ("kbit",),
    "kbit/s": ("kbit",),
    "kb/s": ("kbit",),
    "kb": ("kbit",),
    "k": ("KB", "kbit"),
    "gbps": ("gbit",),
    "gbit/s": ("gbit",),
    "gb/s": ("gbit",),
    "gb": ("gbit",),
    "g": ("GB", "gbit"),
    "bps": ("bit",),
    "bit/s": ("bit",),
    "sec": ("s",),
    "secs": ("s",),
    "seconds": ("s",),
    "msec": ("ms",),
    "msecs": ("ms",),
    "millis": ("ms",),
    "usec": ("us",),
    "µs": ("us",),
    "minutes": ("min",),
    "mins": ("min",),
    "packets": ("p",),
    "packet": ("p",),
    "pkts": ("p",),
    "pkt": ("p",),
    "b": ("B",),
    "byte": ("B",),
    "bytes": ("B",),
    "percent": ("%",),
}
"""Units here for another tool's unit, by that unit in small letters: the first that the quantity
has counts.
"""

BARE: tuple[tuple[str, str], ...] = (
    ("mbit", "did you mean {0}mbit?"),
    ("ms", "{0}ms or {0}s"),
    ("%", "a percentage, of which 1% is a hundredth"),
    ("p", "did you mean {0}p?"),
    ("KB", "{0}B or {0}KB"),
)
"""Hints on numbers without a unit, by a unit that the quantity has."""

_BYTES_A_SECOND = re.compile(r"(k|ki|m|mi|g|gi)?b(ytes?)?(/s|ps|/sec)", re.IGNORECASE)
_PREFIXES = {"": 1, "k": 10**3, "ki": 1 << 10, "m": 10**6, "mi": 1 << 20, "g": 10**9, "gi": 1 << 30}

SYSCTLS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "net.core.rmem_max net.core.wmem_max kern.ipc.maxsockbuf",
        "net.ipv4.tcp_rmem net.inet.tcp.recvbuf_max net.inet.tcp.recvspace",
        "net.ipv4.tcp_wmem net.inet.tcp.sendbuf_max net.inet.tcp.sendspace",
        "net.ipv4.tcp_moderate_rcvbuf net.inet.tcp.recvbuf_auto",
        "net.ipv4.tcp_sack net.inet.tcp.sack.enable",
        "net.ipv4.tcp_window_scaling net.ipv4.tcp_timestamps net.inet.tcp.rfc1323",
    )
)
"""Sysctls of different systems for the same thing."""

KEYS_FOR_SYSCTLS: Mapping[str, str] = {
    "tcp_congestion_control": "use `cc:` of the host",
    "cc.algorithm": "use `cc:` of the host",
    "default_qdisc": "use `queue:` of a link",
    "tcp_ecn": "use `ecn:` of the host",
    "ecn.enable": "use `ecn:` of the host",
    "mssdflt": "use `mss:` of the host",
}
"""Key of an experiment that a sysctl has become, by the end of the sysctl's name."""


def word(text: str, known: Iterable[str]) -> str | None:
    """The hint for a word that is not known where it stands, None where there is none."""
    there = list(known)
    small = text.lower()
    for form in dict.fromkeys((small, re.sub(r"[-_ ]", "", small))):
        meant = next((name for name in WORDS.get(form, ()) if name in there), None)
        if meant is not None:
            return f"did you mean {meant}?"
        if form in SENTENCES:
            return SENTENCES[form]
    return nearest(text, there)


def single(section: str, text: str) -> str | None:
    """The hint for a single value where a section belongs."""
    if section not in SINGLE or not re.fullmatch(r"[0-9A-Za-z.%]{1,20}", text):
        return None
    if section == "loss" and not text.endswith("%"):
        return "a percentage, such as {random: 1%}"
    return f"did you mean {SINGLE[section].format(text)}?"


def unit(number: str, name: str, known: Container[str]) -> str | None:
    """The hint for a quantity in a unit that it does not have, or without one."""
    if not name:
        if "bit" in known and len(number) > 5:
            return f"did you mean {number}bit?"
        return next((said.format(number) for meant, said in BARE if meant in known), None)
    bytes_a_second = _BYTES_A_SECOND.fullmatch(name)
    if bytes_a_second and "mbit" in known and "B" in name:
        bits = Fraction(number) * 8 * _PREFIXES[(bytes_a_second[1] or "").lower()]
        for meant, size in (("gbit", 10**9), ("mbit", 10**6), ("kbit", 10**3), ("bit", 1)):
            if bits >= size and (bits / size * 10**6).denominator == 1:
                return f"did you mean {float(bits / size):.10g}{meant}?"
        return "rates are bits per second, 8 for a byte"
    own = next((one for one in UNITS.get(name.lower(), ()) if one in known), None)
    return f"did you mean {number}{own}?" if own else None


def sysctl(name: str, stack: str, settable: Iterable[str], others: Mapping[str, Iterable[str]]) -> str | None:
    """The hint for a sysctl that a stack does not have; `others` has those of each system."""
    key = key_for_sysctl(name)
    if key is not None:
        return key
    there = set(settable)
    system = next((other for other, names in others.items() if name in names), None)
    for alike in SYSCTLS:
        base = name.removesuffix(".min").removesuffix(".default").removesuffix(".max")
        if base in alike and (own := sorted(alike & there)):
            return f"of {system or 'another system'}, for which {stack} has {' and '.join(own)}"
    return f"{system} has it, and {stack} has not" if system else None


def key_for_sysctl(name: str) -> str | None:
    """Hint on what to write in place of a sysctl that a key of the file stands for. None for any other
    sysctl.
    """
    return next((said for end, said in KEYS_FOR_SYSCTLS.items() if name.endswith(end)), None)
