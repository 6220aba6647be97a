"""A link of a Scenario as commands of tc(8), at the interface by which its packets leave.

HTB with one class has the rate, or TBF the tokens; the link's queue is below it. Delay, jitter, loss,
duplicates and damage are netem's above it, so that they come before the queue.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from cwndlab.contract.scenario import Egress, Link, Loss
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.live.linux.trial import DEVICE, Trials
from cwndlab.testbeds.live.path.links import Look
from cwndlab.testbeds.live.shell import unless_gone

NETEM_LIMIT = 1_000_000
"""Packets that netem holds at most, far more than are on their way: its own default of 1000 drops packets of
a fast long path, and looks like a queue that nobody asked for."""
UNLIMITED_BPS = 1_000_000_000_000
"""Rate of a class whose link has none."""

TBF_LIMIT = str(1 << 30)
"""Bytes that a token bucket's own queue would hold; the link's takes its place."""

QUANTUM_MIN = 256
"""Bytes; fq_codel takes this for anything less (sch_fq_codel.c, fq_codel_change)."""

_PACKETS = "limit_packets"

ALONE = ("tc", "qdisc", "add", "dev", DEVICE, "root", "handle", "1:")
"""Words of the command that puts a discipline at the device of a trial."""


LOOP = (
    'PATH=$PATH:/usr/sbin:/sbin; while :; do date +%s%N; tc -s -j qdisc show dev "$1"; echo; sleep "$2"; done'
)
"""Print the time and an interface's queue disciplines again and again."""


def check(link: Link) -> None:
    """Raises ValueError, one line, for what tc cannot make."""
    commands(link, "")
    own = link["queue"]
    if own["kind"] == "fq_codel" and own["quantum_bytes"] < QUANTUM_MIN:
        found = f"at least {QUANTUM_MIN} bytes, not {own['quantum_bytes']}"
        raise ValueError(f"link {link['name']}: the kernel's quantum of fq_codel is {found}; give it so much")


def trials(link: Link) -> Trials:
    """The commands that put each queue discipline of a link, alone, at the device of a trial."""
    words, *classes = _shaper(link, DEVICE)
    found = {words[0]: [[*ALONE, *words], *classes]}
    if impairments := netem(link):
        found["netem"] = [[*ALONE, "netem", *impairments]]
    words = queue(link["queue"])
    return {**found, words[0]: [[*ALONE, *words]]}


def egress_trials(host: str, told: Egress) -> Trials:
    """List trials of the netem at a host's egress."""
    return {"netem": [[*ALONE, "netem", *egress(host, told)]]}


def queue_trials(told: Mapping[str, Any]) -> Trials:
    """List trials of the queue discipline at a host's interface; raises ValueError for one that is not made
    here.
    """
    return {told["kind"]: [[*ALONE, *queue(told)]]}


def refusal(reach: Reach, interface: str) -> str | None:
    """Reason why a machine may make no link at an interface: disciplines of its own would be lost."""
    shown = reach.interfaces().get(interface, {"qdiscs": ()})["qdiscs"]
    if any(each["parent"] == "root" and each["handle"] != "0:" for each in shown):
        return f"{interface} has queue disciplines already"
    return None


def make(reach: Reach, link: Link, interface: str, number: int) -> None:
    """Make a link; raises OSError with what tc said."""
    undo = remove(interface)
    for command in commands(link, interface):
        reach.run(command, undo=undo)
        undo = ["true"]  # all of them go with the first


def watch(link: Link, interface: str, number: int, interval_s: float) -> list[str]:
    """The words of a command that prints a link's counters again and again."""
    return ["sh", "-c", LOOP, "sh", interface, str(interval_s)]


def looks(text: str) -> list[tuple[int, Look]]:
    """Time of the machine's clock and the counters of the link's queue, at each look."""
    found = []
    for part in text.split("\n\n"):
        stamp, _, shown = part.strip().partition("\n")
        try:
            disciplines = json.loads(shown)
        except ValueError:
            continue  # the one that was being printed when it ended
        leaf = next((each for each in disciplines if each.get("handle") == "2:"), None)
        if leaf is not None and stamp.isdigit():
            counted = (leaf[name] for name in ("packets", "bytes", "drops", "backlog", "qlen"))
            found.append((int(stamp), Look(*counted)))
    return found


def commands(link: Link, interface: str) -> list[list[str]]:
    """List the commands that make the link, in order. Raises ValueError, one line, for what tc cannot
    make.
    """
    root = ["tc", "qdisc", "add", "dev", interface]
    impairments = netem(link)
    made, above = [], ["root"]
    if impairments:
        made.append([*root, "root", "handle", "3:", "netem", *impairments])
        above = ["parent", "3:1"]
    words, *classes = _shaper(link, interface)
    made.append([*root, *above, "handle", "1:", *words])
    made += classes
    made.append([*root, "parent", "1:1", "handle", "2:", *queue(link["queue"])])
    return made


def remove(interface: str) -> list[str]:
    """Command that removes the link: the interface then has the system's own discipline again, whose handle
    is 0.
    """
    place = shlex.quote(interface)
    look = f"tc qdisc show dev {place} | grep -v ' 0: ' | grep -q ' root '"
    return unless_gone(["tc", "qdisc", "del", "dev", interface, "root"], look)


def netem(link: Link) -> list[str]:
    """The parameters of the netem that a link needs, empty if it needs none."""
    words = _impairments(f"link {link['name']}", link)
    return ["limit", str(NETEM_LIMIT), *words] if words else []


def egress(host: str, told: Egress) -> list[str]:
    """The parameters of the netem at a host's egress; raises ValueError, one line, for what netem cannot
    do."""
    words = ["limit", str(told["limit_packets"]), *_impairments(f"host {host}: egress", told)]
    return words if told["rate_bps"] is None else [*words, "rate", f"{told['rate_bps']}bit"]


def make_egress(reach: Reach, host: str, told: Egress, interface: str) -> None:
    """Put netem at a host's egress; raises OSError with what tc said."""
    words = ["tc", "qdisc", "add", "dev", interface, "root", "handle", "3:", "netem", *egress(host, told)]
    reach.run(words, undo=remove(interface))


def make_queue(reach: Reach, told: Mapping[str, Any], interface: str) -> None:
    """Put a queue discipline at a host's interface; raises OSError with what tc said."""
    words = ["tc", "qdisc", "add", "dev", interface, "root", "handle", "2:", *queue(told)]
    reach.run(words, undo=remove(interface))


def _impairments(place: str, told: Link | Egress) -> list[str]:
    words = [*_delay(place, told), *_loss(place, told["loss"])]
    if told["duplicate_ppb"]:
        words += ["duplicate", _percent(told["duplicate_ppb"])]
    if told["corrupt_ppb"]:
        words += ["corrupt", _percent(told["corrupt_ppb"])]
    return words


def _delay(place: str, told: Link | Egress) -> list[str]:
    """Delay and jitter; netem lets packets with jitter overtake each other."""
    delay, jitter = f"{told['delay_ns'] / 1000:g}us", told["jitter"]
    if jitter is None:
        return ["delay", delay] if told["delay_ns"] else []
    if jitter["kind"] == "table" or not jitter["reorder"]:
        problem = "a table of its own" if jitter["kind"] == "table" else "jitter that keeps the order"
        raise ValueError(f"{place}: netem has no {problem} here")
    return ["delay", delay, f"{jitter['sd_ns'] / 1000:g}us", "distribution", jitter["kind"]]


def _loss(place: str, loss: Loss | None) -> list[str]:
    """Random loss, and bursts by a chain of two states (tc-netem(8), `gemodel p r 1-h 1-k`)."""
    if loss is None:
        return []
    if loss["kind"] == "random":
        return ["loss", "random", _percent(loss["probability_ppb"])]
    if loss["kind"] == "gilbert":
        chain = (loss["p_ppb"], loss["r_ppb"], loss["loss_bad_ppb"], loss["loss_good_ppb"])
        return ["loss", "gemodel", *map(_percent, chain)]
    problem = f"netem has loss of kind random or gilbert here, not {loss['kind']}"
    raise ValueError(f"{place}: {problem}; ingress.after_gro of a host has nth")


def queue(told: Mapping[str, Any]) -> list[str]:
    """A queue discipline with its parameters, as tc-NAME(8) has them; raises ValueError for others."""
    kind = told["kind"]
    if kind in OWN:
        return OWN[kind](told)
    match kind:
        case "pfifo":
            return [kind, "limit", str(told[_PACKETS])]
        case "bfifo":
            return [kind, "limit", str(told["limit_bytes"])]
        case "codel":
            return [kind, *_limit(told), *_times(told, "target", "interval"), *_ecn(told)]
    raise ValueError(f"queue {kind} is not made with tc here; pfifo, bfifo, codel, {', '.join(OWN)} are")


def _fq_codel(told: Mapping[str, Any]) -> list[str]:
    words = ["fq_codel", *_limit(told), *_sizes(told), "drop_batch", str(told["drop_batch"])]
    return [*words, *_times(told, "target", "interval"), *_ecn(told)]


def _pie(told: Mapping[str, Any]) -> list[str]:
    return ["pie", *_limit(told), *_of_pie(told)]


def _fq_pie(told: Mapping[str, Any]) -> list[str]:
    return ["fq_pie", *_limit(told), *_sizes(told), "ecn_prob", str(told["ecn_prob"]), *_of_pie(told)]


def _red(told: Mapping[str, Any]) -> list[str]:
    if told["nonlinear"]:
        raise ValueError("queue red: no kernel has nonlinear")
    sizes = [word for name in ("limit", "min", "max", "avpkt") for word in (name, str(told[f"{name}_bytes"]))]
    more = ["burst", str(told["burst_packets"]), "bandwidth", f"{told['bandwidth_bps']}bit"]
    flags = [name for name in ("ecn", "harddrop", "nodrop", "adaptive") if told[name]]
    return ["red", *sizes, *more, "probability", f"{told['probability_ppb'] / 1e9:g}", *flags]


def _cake(told: Mapping[str, Any]) -> list[str]:
    rate = told["bandwidth_bps"]
    shaper = ["unlimited"] if rate is None else ["bandwidth", f"{rate}bit"]
    return ["cake", *shaper, *_times(told, "rtt"), told["flow_mode"], "memlimit", str(told["memlimit_bytes"])]


def _choke(told: Mapping[str, Any]) -> list[str]:
    sizes = [
        word for name in ("limit", "min", "max", "burst") for word in (name, str(told[f"{name}_packets"]))
    ]
    more = ["avpkt", str(told["avpkt_bytes"]), "bandwidth", f"{told['bandwidth_bps']}bit"]
    marks = ["ecn"] if told["ecn"] else []
    return ["choke", *sizes, *more, "probability", f"{told['probability_ppb'] / 1e9:g}", *marks]


def _fq(told: Mapping[str, Any]) -> list[str]:
    rate, threshold = told["maxrate_bps"], told["ce_threshold_ns"]
    return [
        *("fq", *_limit(told), "flow_limit", str(told["flow_limit_packets"])),
        *("quantum", str(told["quantum_bytes"]), "initial_quantum", str(told["initial_quantum_bytes"])),
        *([] if rate is None else ["maxrate", f"{rate}bit"]),
        *("low_rate_threshold", f"{told['low_rate_threshold_bps']}bit"),
        *(*_times(told, "refill_delay"), "orphan_mask", str(told["orphan_mask"])),
        *([] if threshold is None else _times(told, "ce_threshold")),
        *(*_times(told, "horizon"), "horizon_drop" if told["horizon_drop"] else "horizon_cap"),
    ]


def _dualpi2(told: Mapping[str, Any]) -> list[str]:
    step = told["step_packets"]
    return [
        *("dualpi2", *_limit(told), "memlimit", str(told["memlimit_bytes"])),
        *_times(told, "target", "tupdate"),
        *("alpha", f"{told['alpha_ppb'] / 1e9:g}", "beta", f"{told['beta_ppb'] / 1e9:g}"),
        *("coupling_factor", str(told["coupling_factor"])),
        *(_times(told, "step_thresh") if step is None else ["step_thresh", f"{step}p"]),
        *("min_qlen_step", str(told["min_qlen_step_packets"])),
        "drop_on_overload" if told["drop_on_overload"] else "overflow",
        "drop_enqueue" if told["drop_enqueue"] else "drop_dequeue",
        "any_ect" if told["any_ect"] else "l4s_ect",
        *("classic_protection", f"{told['classic_protection']}%"),
        "split_gso" if told["split_gso"] else "no_split_gso",
    ]


def in_one_kernel(told: Mapping[str, Any]) -> str | None:
    """Return the reason why a queue is another one in the kernel that has the senders. None where it is not.

    TCP notes when it sends a packet (__tcp_transmit_skb), and the packet keeps that in other namespaces
    (skb_clear_tstamp); FQ takes it for the time at which the packet may leave.
    """
    if told["kind"] == "fq" and (told["maxrate_bps"], told["ce_threshold_ns"]) != (None, None):
        counts = "fq with maxrate or ce_threshold counts from when a sender's TCP sent"
        return f"{counts}, where that is the same kernel"
    return None


OWN: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "fq_codel": _fq_codel,
    "pie": _pie,
    "fq_pie": _fq_pie,
    "red": _red,
    "cake": _cake,
    "dualpi2": _dualpi2,
    "choke": _choke,
    "fq": _fq,
}
"""Disciplines of many parameters, each with its words."""


def _limit(told: Mapping[str, Any]) -> list[str]:
    return ["limit", str(told[_PACKETS])]


def _sizes(told: Mapping[str, Any]) -> list[str]:
    """Flows, quantum and memory of a fair discipline."""
    names = {"flows": "flows", "quantum": "quantum_bytes", "memory_limit": "memory_limit_bytes"}
    return [word for name, key in names.items() for word in (name, str(told[key]))]


def _of_pie(told: Mapping[str, Any]) -> list[str]:
    gains = ["alpha", str(told["alpha"]), "beta", str(told["beta"])]
    flags = [*_ecn(told)[:1], _flag(told, "bytemode"), _flag(told, "dq_rate_estimator")]
    return [*_times(told, "target", "tupdate"), *gains, *flags]


def _shaper(link: Link, interface: str) -> list[list[str]]:
    """The words of the discipline that has a link's rate, and the commands that make its class."""
    shaper: Mapping[str, Any] = dict(link["shaper"] or {})
    if shaper and (link["rate_bps"] is not None or shaper["kind"] not in ("token-bucket", "htb")):
        found = "makes htb or tbf here, alone; leave out the link's rate, or the shaper"
        raise ValueError(f"link {link['name']}: tc {found}")
    if shaper.get("kind") == "token-bucket":
        peak = shaper["peak"]
        second = ["peakrate", f"{peak['rate_bps']}bit", "mtu", str(peak["burst_bytes"])] if peak else []
        burst = ["burst", str(shaper["burst_bytes"])]
        return [["tbf", "rate", f"{shaper['rate_bps']}bit", *burst, *second, "limit", TBF_LIMIT]]
    packet = link["mtu"] + 14
    if shaper:
        rate, ceil = shaper["rate_bps"], shaper["ceil_bps"]
        bursts = [str(shaper["burst_bytes"]), str(shaper["cburst_bytes"])]
    else:
        rate = ceil = link["rate_bps"] or UNLIMITED_BPS
        bursts = [str(max(packet, rate // 8000))] * 2
    words = ["rate", f"{rate}bit", *(["ceil", f"{ceil}bit"] if ceil > rate else [])]
    words += ["burst", bursts[0], "cburst", bursts[1], "quantum", str(min(packet, 60_000))]
    one = ["tc", "class", "add", "dev", interface, "parent", "1:", "classid", "1:1", "htb", *words]
    return [["htb", "default", "1"], one]


def _times(told: Mapping[str, Any], *names: str) -> list[str]:
    return [word for name in names for word in (name, f"{told[f'{name}_ns'] // 1000}us")]


def _ecn(told: Mapping[str, Any]) -> list[str]:
    threshold = told.get("ce_threshold_ns")
    marks = [] if threshold is None else ["ce_threshold", f"{threshold // 1000}us"]
    if marks and told.get("ce_threshold_mask"):
        selector, mask = told["ce_threshold_selector"], told["ce_threshold_mask"]
        marks += ["ce_threshold_selector", f"{selector:#x}/{mask:#x}"]
    return ["ecn" if told["ecn"] else "noecn", *marks]


def _flag(told: Mapping[str, Any], name: str) -> str:
    return name if told[name] else f"no_{name}" if name == "dq_rate_estimator" else f"no{name}"


def _percent(ppb: int) -> str:
    return f"{ppb / 1e7:g}%"
