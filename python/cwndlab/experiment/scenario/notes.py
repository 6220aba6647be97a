"""Notes on a Scenario before it runs: what it says that is surely not meant, a sentence each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from cwndlab.contract.scenario import Flow, Host, Link, Scenario
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.scenario.memo import Memo
from cwndlab.experiment.scenario.path_state import ACK_BYTES
from cwndlab.experiment.scenario.queries import app_of, full_ns, is_datagrams, rate_of
from cwndlab.experiment.scenario.resolve import Resolved
from cwndlab.experiment.scenario.routes import Routed, Way, Ways
from cwndlab.experiment.units import format_rate, format_size, format_time

MAX_NAMES = 4
"""Flows that a sentence names."""

Found = Iterator[tuple[str, str]]
"""The name of a flow, and what is to be said of it."""

Check = Callable[[Routed], Found]


_Said = dict[Check, list[tuple[str, str]]]
"""Finds of checks."""


class Notes:
    """Finds the notes of Scenarios. What several of them share is looked at once."""

    def __init__(self, catalogue: Catalogue) -> None:
        """`catalogue` knows the defaults of sysctls."""
        self._catalogue = catalogue
        self._known: Memo[tuple[Way, _Said]] = Memo()
        self._said: Memo[_Said] = Memo()
        self._ways = Ways()

    def of(self, cell: Resolved) -> tuple[str, ...]:
        """Return the notes of a Scenario, one sentence each; one of several flows names the first of them."""
        scenario = cell.scenario
        way, known = self._known.of(cell.ends, self._of_ends, scenario)
        of_path = self._said.of(("path", cell.path), self._find, OF_PATH, scenario, way)
        of_rates = self._said.of(("rates", cell.rates), self._find, OF_RATES, scenario, way)
        found = known | of_path | of_rates
        sentences: dict[str, list[str]] = {}
        for check in CHECKS:
            for flow, sentence in found[check]:
                sentences.setdefault(sentence, []).append(flow)
        return tuple([f"{_flows(names)}: {sentence}" for sentence, names in sentences.items()])

    def _of_ends(self, scenario: Scenario) -> tuple[Way, _Said]:
        way = self._ways.of(scenario["links"])
        return way, self._find(OF_ENDS, scenario, way)

    def _find(self, checks: Sequence[Check], scenario: Scenario, way: Way) -> _Said:
        run = Routed(scenario, self._catalogue, way)
        return {check: list(check(run)) for check in checks}


def of_levels(keys: Sequence[Sequence[str]], rows: Sequence[Sequence[str]], runs: Sequence[str]) -> list[str]:
    """Notes on rows of an axis that make the same runs, whatever the other axes say.

    `keys` has the keys of each axis, `rows` the text of each of its rows, `runs` what tells the Scenarios of
    all combinations apart, the last axis changing fastest.
    """
    notes, inner = [], len(runs)
    for names, texts in zip(keys, rows, strict=True):
        whole, inner = inner, inner // len(texts)
        alike: dict[tuple[str, ...], list[str]] = {}
        for row, text in enumerate(texts):
            own = (
                run for start in range(row * inner, len(runs), whole) for run in runs[start : start + inner]
            )
            alike.setdefault(tuple(own), []).append(text)
        for same in alike.values():
            if len(same) > 1:
                notes.append(f"sweep: {_and(names)}: {_the_same(same, len(texts))}")
    return notes


def _the_same(same: Sequence[str], of: int) -> str:
    told = list(dict.fromkeys(same))
    if len(told) == 1:
        return f"{told[0]} is there {_times(len(same))}; each makes the same runs"
    if len(same) == of:
        return f"changes nothing, {_and(told)} make the same runs"
    return f"{_and(told)} make the same runs"


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


_NAMED = re.compile(r"bottleneck(\.\d+)?(\.reverse)?")
"""The bottlenecks of a dumbbell and of a chain, both ways."""


def _is_named(link: Link) -> bool:
    return link["bottleneck"] and _NAMED.fullmatch(link["name"]) is not None


def _on_one_side(run: Routed) -> Found:
    """Flows between hosts on the same side of a dumbbell, or at the same router of a chain."""
    if not any(_NAMED.fullmatch(link["name"]) for link in run.scenario["links"]):
        return
    for flow in run.flows:
        if not any(_NAMED.fullmatch(link["name"]) for link in run.forward(flow)):
            ends = f"{flow['from']} and {flow['to']}"
            yield flow["name"], f"{ends} are on the same side, so that its packets cross no bottleneck"


def _against_the_bottleneck(run: Routed) -> Found:
    """Flows whose data goes the other way than the bottleneck is written, with nothing said of that way."""
    links: dict[str, Any] = {**run.links}
    changed = {change["link"] for change in run.scenario["schedule"]}
    for flow in run.flows:
        for name in [link["name"] for link in run.forward(flow) if link["name"].endswith(".reverse")]:
            link, there = links[name], links[name.removesuffix(".reverse")]
            # A host's own cable is written as seen from the host, and downloads of a load go backwards.
            of_host = (link["from"] in run.hosts) != (link["to"] in run.hosts)
            if of_host or "part" in app_of(flow) or there["name"] in run.crossing:
                continue
            missed = [key.removesuffix("_ppb") for key in _ONE_WAY if there[key] and not link[key]]
            missed += ["schedule"] if there["name"] in changed - {name} else []
            same = all(link[key] == there[key] for key in _BOTH_WAYS)
            if same and (missed or _NAMED.fullmatch(name)):
                without = f", without its {_and(missed)}" if missed else ""
                yield (
                    flow["name"],
                    (
                        f"its data, from {flow['from']} to {flow['to']}, passes {there['name']} in the other"
                        f" direction, {name}{without}"
                    ),
                )


_ONE_WAY = ("loss", "duplicate_ppb", "corrupt_ppb", "jitter")
"""Settings of a link that its other direction does not inherit."""
_BOTH_WAYS = ("rate_bps", "delay_ns", "queue", "mtu", "shaper")
"""Settings that it does, unless its own are written."""


def _access_slower(run: Routed) -> Found:
    """Flows that all together get no more through other links than a bottleneck could carry."""
    for bottleneck in run.scenario["links"]:
        name = bottleneck["name"]
        if not _is_named(bottleneck) or name not in run.crossing:
            continue
        rate = min((rate for rate in run.rates(bottleneck) if rate is not None), default=None)
        narrow = {flow["name"]: _narrowest(run, flow) for flow in run.crossing[name]}
        before = dict(found for found in narrow.values() if found is not None)
        if rate is None or not all(narrow.values()) or sum(before.values()) >= rate:
            continue
        for flow, found in narrow.items():
            where, least = found or ("", 0)
            passes = f"{where} lets {format_rate(least)} pass, less than {name}, {format_rate(rate)}"
            yield flow, f"{passes}: packets wait there, and not in the queue of {name}"


def _narrowest(run: Routed, flow: Flow) -> tuple[str, int] | None:
    """Return the slowest link of a flow's way besides bottlenecks, and its rate. None without rates."""
    others = [link for link in run.forward(flow) if not link["bottleneck"]]
    rates = [(rate, link["name"]) for link in others if (rate := run.highest_rate(link)) is not None]
    egress = run.hosts[flow["from"]]["egress"]
    if egress is not None and egress["rate_bps"] is not None:
        rates.append((egress["rate_bps"], f"the egress of {flow['from']}"))
    rate, name = min(rates, default=(0, ""))
    return (name, rate) if rates else None


def _ecn_without_marks(run: Routed) -> Found:
    """Flows that ask for ECN on a way on which no queue marks."""
    for flow in run.flows:
        sender, receiver = run.hosts[flow["from"]], run.hosts[flow["to"]]
        asked = sender["ecn"] in ("on", "accurate", "on-accept-accurate")
        if is_datagrams(flow):
            asked = app_of(flow).get("ecn") in ("ect0", "ect1")
        elif asked and receiver["ecn"] == "off":
            yield flow["name"], f"ECN is on at {flow['from']}, and {flow['to']} does not accept it (ecn: off)"
            continue
        queues = [queue for link in run.forward(flow) for queue in run.changed(link, "queue")]
        if asked and not any(map(marks, queues)):
            named = [link for link in run.forward(flow) if link["bottleneck"]] or run.forward(flow)
            kinds = dict.fromkeys(f"{link['queue']['kind']} at {link['name']}" for link in named)
            yield flow["name"], f"ECN is on, and no queue on its way marks ({', '.join(kinds)})"


def marks(queue: Mapping[str, Any]) -> bool:
    """Whether a queue discipline marks packets that are ECN-capable."""
    return queue["kind"] in ("cake", "dualpi2") or bool(queue.get("ecn") or queue.get("ce_threshold_ns"))


def _buffer_clamped(run: Routed) -> Found:
    """Flows of which a socket's buffer is smaller than the file says, by another sysctl."""
    for flow in run.flows:
        if not is_datagrams(flow):
            sender, receiver = run.hosts[flow["from"]], run.hosts[flow["to"]]
            clamped = [_clamped(run, sender, "sndbuf", flow["sndbuf"])]
            clamped += [_clamped(run, receiver, "rcvbuf", flow["rcvbuf"])]
            yield from ((flow["name"], sentence) for sentence in clamped if sentence)


def _clamped(run: Routed, host: Host, key: str, asked: int | None) -> str:
    """Return the note on what keeps a buffer of a host below what was asked for, or its autotuning."""
    cut, grows = _MAXIMA[key]
    most = run.sysctl(host, cut)
    if asked is not None and most is not None and asked > most:
        return f"{key} {format_size(asked)} of {host['name']} is cut to {format_size(most)} by its {cut}"
    memory = run.sysctl(host, MAXSOCKBUF)
    if memory is None:
        return ""
    allowed = memory * CLUSTER // CLUSTER_AND_MBUF
    # Where the file does not set it, it gives way to what a socket asks for.
    if asked is not None and MAXSOCKBUF in host["sysctl"] and asked > allowed:
        return (
            f"{key} {format_size(asked)} of {host['name']} is refused, as its {MAXSOCKBUF} of"
            f" {format_size(memory)} allows {format_size(allowed)}: it stays as without {key}"
        )
    wanted = host["sysctl"].get(grows, 0)
    if asked is None and wanted > memory:
        return (
            f"{grows} of {host['name']} is {format_size(wanted)}, and its {MAXSOCKBUF} of"
            f" {format_size(memory)} ends autotuning at {format_size(allowed)} or before"
        )
    return ""


_MAXIMA = {
    "sndbuf": ("net.core.wmem_max", "net.inet.tcp.sendbuf_max"),
    "rcvbuf": ("net.core.rmem_max", "net.inet.tcp.recvbuf_max"),
}
"""By buffer, the sysctl to which Linux cuts it, and that to which FreeBSD's autotuning lets it grow."""
MAXSOCKBUF = "kern.ipc.maxsockbuf"
"""FreeBSD's limit of a socket's buffer, which counts the memory of its mbufs."""
CLUSTER, CLUSTER_AND_MBUF = 2048, 2048 + 256
"""Bytes of data in a cluster, and of memory that it takes with its mbuf (sys/param.h of FreeBSD)."""


def _without_memory(run: Routed) -> Found:
    """Flows with connections that follow others between the same hosts, and begin without their lessons."""
    for flow in run.flows:
        host = run.hosts[flow["from"]]
        switch = next((name for name in MEMORY if run.sysctl(host, name) is not None), None)
        if switch is None or switch in host["sysctl"] or run.sysctl(host, switch) == MEMORY[switch]:
            continue
        many = app_of(flow)["kind"] == "background"
        if many or any(_follows(run, flow, other) for other in run.flows):
            begins = "each of its transfers begins" if many else "it begins"
            yield (
                flow["name"],
                f"{begins} without what earlier connections of {host['name']} have learnt; its system keeps"
                f" that by default, as the sysctl {switch}: {MEMORY[switch]} does",
            )


def _follows(run: Routed, flow: Flow, other: Flow) -> bool:
    same = other["from"] == flow["from"] and other["to"] == flow["to"]
    return same and not is_datagrams(other) and run.end_ns(other) <= flow["start_ns"]


MEMORY = {
    "net.ipv4.tcp_no_metrics_save": 0,
    "net.inet.tcp.hostcache.enable": 1,
    "net.inet.tcp.hostcache.cachelimit": 15360,
}
"""Sysctls by which hosts keep what connections learn of a path, and the systems' own defaults."""


def _outside_the_window(run: Routed) -> Found:
    """Flows of which nothing falls into `measure`."""
    measure = run.scenario["measure"]
    for flow in run.flows:
        if run.end_ns(flow) <= measure["from_ns"]:
            stop = format_time(run.end_ns(flow))
            begins = format_time(measure["from_ns"])
            yield flow["name"], f"it stops at {stop}, and `measure` begins at {begins}: no metric covers it"
        elif flow["start_ns"] >= measure["to_ns"]:
            start, ends = format_time(flow["start_ns"]), format_time(measure["to_ns"])
            yield flow["name"], f"it starts at {start}, and `measure` ends at {ends}: no metric covers it"


def _over_before_the_window(run: Routed) -> Found:
    """Flows that have sent all that they have to long before `measure`, whatever slows them."""
    begins = run.scenario["measure"]["from_ns"]
    changed = {change["link"] for change in run.scenario["schedule"]}
    for flow in run.flows:
        size = app_of(flow).get("bytes")
        if size is None or run.end_ns(flow) <= begins:
            continue
        links = run.forward(flow)
        lossy = any(link["loss"] or link["name"] in changed for link in (*links, *run.back(flow)))
        rated = [(rate, link["name"]) for link in links if (rate := rate_of(link)) is not None]
        if lossy or not rated:
            continue
        rate, name = min(rated)
        sharing = run.crossing[name]
        if any(map(is_datagrams, sharing)):
            continue
        sending = size * 8 * 10**9 // rate
        rtt = run.base_rtt_ns(flow) + (int(full_ns(run.links[name]) or 0) if len(sharing) > 1 else 0)
        window = min(SMALL_WINDOW, *((buffer or inf) / 2 for buffer in (flow["sndbuf"], flow["rcvbuf"])))
        lasts = sending * len(sharing) + (SLOW_START + size / window) * rtt
        if flow["start_ns"] + TIMEOUT_NS + SLOWER * lasts <= begins:
            taken = f"its {format_size(size)} take {format_time(-(-sending // 10**5) * 10**5)}"
            all_there = f"`measure` begins at {format_time(begins)}, when all has arrived"
            yield (
                flow["name"],
                f"{taken} at the rate of {name}, and {all_there}: it has no goodput and no RTT",
            )


SMALL_WINDOW = 65535
"""Bytes that even a connection without window scaling may have on the way."""
SLOW_START = 5
"""Round trips in which the smallest initial window grows to that."""
TIMEOUT_NS = 10**9
"""The wait for an initial retransmission timeout (RFC 6298), with which a short transfer may end."""
SLOWER = 4
"""So many times what a fair share of the link and that window allow, no transfer is taken to last."""


def _too_short(run: Routed) -> Found:
    """Flows that are over before their first data can arrive."""
    for flow in run.flows:
        if is_datagrams(flow):
            continue
        there, back = run.forward(flow), run.back(flow)
        egress = run.hosts[flow["from"]]["egress"]
        one_way = sum(link["delay_ns"] for link in there) + (egress["delay_ns"] if egress else 0)
        handshake = run.base_rtt_ns(flow) + sum(_sending_ns(link) for link in (*there, *back))
        lasts = run.end_ns(flow) - flow["start_ns"]
        if handshake + one_way >= lasts:
            least, more = (format_time(-(-time // 10**5) * 10**5) for time in (handshake, one_way))
            opening = f"its handshake takes {least} at least, and its first data {more} more"
            yield flow["name"], f"it lasts {format_time(lasts)}; {opening}: nothing arrives"


def _sending_ns(link: Link) -> int:
    """The transmission of the smallest packet of a handshake, ns."""
    rate = rate_of(link)
    return 0 if rate is None else (ACK_BYTES + link["overhead"]) * 8 * 10**9 // rate


CHECKS: tuple[Check, ...] = (
    _on_one_side,
    _against_the_bottleneck,
    _access_slower,
    _ecn_without_marks,
    _buffer_clamped,
    _without_memory,
    _outside_the_window,
    _over_before_the_window,
    _too_short,
)
"""All that is looked for, in the order in which it is said."""
OF_ENDS = (_on_one_side, _buffer_clamped, _without_memory, _outside_the_window)
"""Notes that look at no setting of a link; the others look at no congestion control and no sysctl."""
OF_RATES = (_access_slower, _ecn_without_marks)
"""Notes that look at no congestion control, no sysctl and no delay of a link."""
OF_PATH = tuple(check for check in CHECKS if check not in (*OF_ENDS, *OF_RATES))


def _flows(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{'flow' if len(names) == 1 else 'flows'} {', '.join(names[:MAX_NAMES])}{more}"


def _and(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
