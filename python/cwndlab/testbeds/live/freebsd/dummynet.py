"""A link of a Scenario as pipes, schedulers and queues of dummynet, and a rule of ipfw, at the interface by
which its packets leave (ipfw(8), "TRAFFIC SHAPER (DUMMYNET) CONFIGURATION").

A pipe has rate, delay, loss and queue. FQ-CoDel and FQ-PIE are schedulers: the rule then sends packets to a
queue of the scheduler, whose pipe has rate and delay. Dummynet counts IP packets, without Ethernet's header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cwndlab.contract.scenario import Link
from cwndlab.testbeds.live.freebsd import commands, rules
from cwndlab.testbeds.live.freebsd.commands import Change
from cwndlab.testbeds.live.freebsd.shell import ByShell
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.live.path.links import Look

RULE_STEP = 100
"""Distance between the numbers of two rules."""
FASTEST_BPS = 0xFFFF_FFFF
"""Bits per second that a pipe counts in 32 bits; before FreeBSD 12 it is half of that."""
LONGEST_MS = 10_000
"""Delay of a pipe at most."""
MOST_FLOWS = {"limit_packets": 20_480, "flows": 65_536}
"""Largest parameters of FQ-CoDel and FQ-PIE."""
MODULES = ("ipfw", "dummynet")
SLOTS, BYTES = "net.inet.ip.dummynet.pipe_slot_limit", "net.inet.ip.dummynet.pipe_byte_limit"
"""Sysctls with the longest queue that a pipe may have: 100 packets and 1 MiB unless set."""
EXPIRE = "net.inet.ip.dummynet.expire"
"""Whether idle queues go, and their counters with them."""
FAIR = ("fq_codel", "fq_pie")
"""Disciplines that are schedulers."""


def check(link: Link) -> None:
    """Raises ValueError, one line, for what dummynet cannot make."""
    words(link)


def trials(link: Link) -> dict[str, list[list[str]]]:
    """Return no trials: dummynet has all of its disciplines, or is not there."""
    return {}


def make(reach: Reach, link: Link, interface: str, number: int) -> None:
    """Make a link, the machine's `number`-th from 1; raises ValueError, or OSError with what ipfw said."""
    assert isinstance(reach, ByShell)  # of a FreeBSD machine
    for change in changes(reach, link, interface, number):
        reach.run(change.argv, undo=change.undo)


def changes(reach: ByShell, link: Link, interface: str, number: int) -> Iterator[Change]:
    """Yield the changes that make a link, in order; each is to be done before the next is asked for."""
    pipe, queue = words(link)
    yield from rules.modules(reach, *MODULES)
    yield from _room(reach, link["queue"])
    if link["queue"]["kind"] in FAIR:
        yield commands.pipe("pipe", number, pipe)
        yield commands.pipe("sched", number, ["pipe", str(number), "type", *queue])
        yield commands.pipe("queue", number, ["sched", str(number)])
        yield commands.rule(RULE_STEP * number, "queue", number, interface)
    else:
        yield commands.pipe("pipe", number, [*pipe, *queue])
        yield commands.rule(RULE_STEP * number, "pipe", number, interface)


def refusal(reach: Reach, interface: str) -> str | None:
    """Reason why a machine may not make links: it has rules or pipes already, which packets would meet as
    well.
    """
    assert isinstance(reach, ByShell)  # of a FreeBSD machine
    if (reason := rules.refusal(reach)) is not None:
        return reason
    if reach.loaded("dummynet") and reach.run(commands.PIPES).strip():
        return "dummynet has pipes already"
    return None


def watch(link: Link, interface: str, number: int, interval_s: float) -> list[str]:
    """The words of a command that prints a link's counters again and again."""
    kind = "sched" if link["queue"]["kind"] in FAIR else "pipe"
    words = [str(RULE_STEP * number), kind, str(number), str(interval_s)]
    return ["sh", "-c", commands.PIPE_LOOP, "sh", *words]


_RULE = re.compile(r"^\d{5} +(\d+) +(\d+) ", re.MULTILINE)
_FLOW = re.compile(
    r"^ *\d+[ *]\S+ +[\d.]+/\d+ +[\d.]+/\d+ +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) *$", re.MULTILINE
)


def looks(text: str) -> list[tuple[int, Look]]:
    """Time of the machine's clock and what was counted, at each look.

    The rule counts what came to the link, the queues what they hold and have dropped: what left is the
    difference. Bytes of dropped packets are taken to be as many as packets have on average.
    """
    found = []
    for part in text.split("\n\n"):
        stamp, _, shown = part.strip().partition("\n")
        came = _RULE.search(shown)
        if not stamp.isdigit() or came is None:
            continue  # the one that was being printed when it ended
        flows = [[int(number) for number in flow] for flow in _FLOW.findall(shown)]
        packets, size = int(came[1]), int(came[2])
        backlog, waiting, drops = (sum(flow[place] for flow in flows) for place in (3, 2, 4))
        left = max(0, packets - drops - waiting)
        sent = max(0, size - backlog - (drops * size // packets if packets else 0))
        found.append((int(stamp), Look(left, sent, drops, backlog, waiting)))
    return found


def words(link: Link) -> tuple[list[str], list[str]]:
    """Return the configuration of a link's pipe, and that of its queue. Raises ValueError for what dummynet
    cannot do.
    """
    name, rate, delay = link["name"], link["rate_bps"], link["delay_ns"]
    for key, told in (("shaper", link["shaper"]), ("jitter", link["jitter"])):
        if told is not None:
            raise ValueError(f"link {name}: dummynet makes no {key} here; leave it out")
    for key, ppb in (("duplicate", link["duplicate_ppb"]), ("corrupt", link["corrupt_ppb"])):
        if ppb:
            raise ValueError(f"link {name}: dummynet cannot {key} packets")
    if link["overhead"]:
        problem = f"dummynet counts IP packets, without {link['overhead']} bytes of overhead"
        raise ValueError(f"link {name}: {problem}; write overhead: 0")
    if rate is not None and rate > FASTEST_BPS:
        raise ValueError(f"link {name}: a pipe has at most {FASTEST_BPS} bit/s; leave the rate out")
    if delay % 10**6 or delay > LONGEST_MS * 10**6:
        raise ValueError(f"link {name}: dummynet delays by whole ms up to {LONGEST_MS}, not {delay / 1e6:g}")
    made = [] if rate is None else ["bw", f"{rate}bit/s"]
    made += ["delay", str(delay // 10**6)] if delay else []
    made += _loss(link)
    return made, queue(link["queue"])


def _loss(link: Link) -> list[str]:
    loss = link["loss"]
    if loss is None:
        return []
    if loss["kind"] != "random":
        raise ValueError(f"link {link['name']}: dummynet has loss of kind random, not {loss['kind']}")
    if link["queue"]["kind"] in FAIR:
        raise ValueError(f"link {link['name']}: {link['queue']['kind']} of dummynet knows no loss (plr)")
    return ["plr", f"{loss['probability_ppb'] / 1e9:.9f}"]


def queue(told: Mapping[str, Any]) -> list[str]:
    """A queue discipline with its parameters; raises ValueError for one that dummynet does not have.

    Parameters of CoDel and PIE take all words that follow, and come last.
    """
    kind = told["kind"]
    if told.get("ce_threshold_ns") is not None:
        raise ValueError(f"queue {kind}: dummynet has no ce_threshold")
    if kind not in QUEUES:
        names = ", ".join(QUEUES)
        raise ValueError(f"queue {kind} is not made with dummynet; {names} are")
    length = ["queue", str(told["limit_packets"])] if "limit_packets" in told else []
    length = ["queue", f"{told['limit_bytes']}bytes"] if "limit_bytes" in told else length
    return QUEUES[kind](told) if kind in FAIR else [*length, *QUEUES[kind](told)]


def _plain(told: Mapping[str, Any]) -> list[str]:
    return []


def _codel(told: Mapping[str, Any]) -> list[str]:
    return ["codel", *_times(told, "target", "interval"), _ecn(told)]


def _fq_codel(told: Mapping[str, Any]) -> list[str]:
    return ["fq_codel", *_times(told, "target", "interval"), _ecn(told), *_fair(told)]


def _fq_pie(told: Mapping[str, Any]) -> list[str]:
    return ["fq_pie", *_pie(told)[1:], *_fair(told)]


def _red(told: Mapping[str, Any]) -> list[str]:
    for key in ("harddrop", "nodrop", "adaptive", "nonlinear"):
        if told[key]:
            raise ValueError(f"queue red: dummynet has no {key}")
    weight = 2.0 ** -_wlog(told["min_bytes"], told["burst_packets"], told["avpkt_bytes"])
    thresholds = f"{told['min_bytes']}/{told['max_bytes']}"
    words = ["red", f"{weight:.9f}/{thresholds}/{told['probability_ppb'] / 1e9:.9f}"]
    return [*words, "ecn"] if told["ecn"] else words


def _wlog(least: int, burst: int, packet: int) -> int:
    """The negative logarithm of the averaging weight at which a burst passes, as tc computes it (iproute2,
    tc_red.c, tc_red_eval_ewma)."""
    wanted, weight = burst + 1 - least / packet, 0.5
    for log in range(1, 32):
        if wanted <= (1 - (1 - weight) ** burst) / weight:
            return log
        weight /= 2
    return 31


def _pie(told: Mapping[str, Any]) -> list[str]:
    """PIE's: alpha and beta are sixteenths here, numbers there."""
    if told["bytemode"]:
        raise ValueError(f"queue {told['kind']}: dummynet has no bytemode")
    gains = ["alpha", f"{told['alpha'] / 16:g}", "beta", f"{told['beta'] / 16:g}"]
    estimator = "dre" if told["dq_rate_estimator"] else "ts"
    marked = ["max_ecnth", f"{told['ecn_prob'] / 100:g}"] if "ecn_prob" in told else []
    return ["pie", *_times(told, "target", "tupdate"), *gains, *marked, _ecn(told), estimator]


def _fair(told: Mapping[str, Any]) -> list[str]:
    for key, most in MOST_FLOWS.items():
        if told[key] > most:
            raise ValueError(f"queue {told['kind']}: dummynet has {key} up to {most}, not {told[key]}")
    sizes = {"quantum": "quantum_bytes", "limit": "limit_packets", "flows": "flows"}
    return [word for name, key in sizes.items() for word in (name, str(told[key]))]


def _times(told: Mapping[str, Any], *names: str) -> list[str]:
    return [word for name in names for word in (name, f"{told[f'{name}_ns'] // 1000}us")]


def _ecn(told: Mapping[str, Any]) -> str:
    return "ecn" if told["ecn"] else "noecn"


QUEUES: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "pfifo": _plain,
    "bfifo": _plain,
    "red": _red,
    "codel": _codel,
    "pie": _pie,
    "fq_codel": _fq_codel,
    "fq_pie": _fq_pie,
}
"""Words behind the length of the queue, by discipline."""


def _room(reach: ByShell, told: Mapping[str, Any]) -> Iterator[Change]:
    """Queues that keep their counters, and are as long as the experiment says."""
    wanted = {EXPIRE: (0, 0)}
    if told["kind"] not in FAIR:
        wanted |= {
            sysctl: (told[key], 1 << 62)
            for sysctl, key in ((SLOTS, "limit_packets"), (BYTES, "limit_bytes"))
            if key in told
        }
    for sysctl, (least, most) in wanted.items():
        before = reach.value(sysctl)
        if not least <= int(before) <= most:
            yield Change(commands.setting(sysctl, str(least)), commands.setting(sysctl, before))
