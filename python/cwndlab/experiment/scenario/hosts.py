"""From hosts of the experiment file to those of the Scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from cwndlab.contract import scenario as contract
from cwndlab.errors import nearest_names, shown
from cwndlab.experiment import hints, units
from cwndlab.experiment.catalogue import PARTS, Stack
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.scenario.memo import Piece
from cwndlab.experiment.scenario.path_state import tx_queue
from cwndlab.experiment.scenario.resolver import PlannedFlow, Resolver, buffer
from cwndlab.experiment.scenario.topology import origin
from cwndlab.experiment.schema import (
    AnyQueue,
    Egress,
    Host,
    Ingress,
    IngressStage,
    Match,
    Nic,
    Noise,
)
from cwndlab.experiment.schema.hosts import ACCURATE, Cheats
from cwndlab.experiment.units import BadValue, Bdp

TSO_MAX = 65_536
"""Bytes of the largest super-packet (an IPv4 packet's length has 16 bits)."""
_BUFFER_MAXIMA = ("net.core.wmem_max", "net.core.rmem_max")
"""Sysctls to which Linux cuts SO_SNDBUF and SO_RCVBUF silently (socket(7)). FreeBSD refuses instead, and its
engine raises kern.ipc.maxsockbuf by itself where the experiment does not set it."""
AGGREGATION = {"linux": "gro", "freebsd": "lro"}
"""The receive aggregation of each family of stacks. Windows 7 has none: its own (RSC) came with Windows 8."""
_SYSTEMS = {"linux": "Linux", "freebsd": "FreeBSD"}
"""Names of families of stacks in a sentence."""
NETEM_LIMIT = 1000
"""Packets that netem holds unless the experiment sets it (tc-netem(8), limit)."""
COALESCE_TIME = 50_000
"""Interrupt moderation, in ns, of a host that aggregates, unless the experiment sets it: 20000 interrupts a
second, the usual limit of Linux's igb and e1000e drivers (their "conservative" mode)."""
COALESCE_FRAMES = 64
"""Frames that end the wait of such a host: what Linux takes in one polling pass (NAPI_POLL_WEIGHT)."""
ACK_EVERY_WAIT = 1_000_000
"""How long, in ns, a receiver with ``ack_every`` waits for the next segment of an aggregate."""


class Hosts(Resolver):
    """Resolves hosts."""

    def check_hosts(self) -> None:
        """Check every host; raises `Misplaced` with what is wrong with any of them."""
        found = []
        for name, host in self.spec.hosts.items():
            try:
                key = (name, self.rows.of(("hosts", name)))
                self.known.checked.of(key, self.check_host, name, host)
            except Misplaced as misplaced:
                found.append(misplaced)
        if found:
            raise Misplaced(found[0].path, found[0].bad, found[1:])

    def check_host(self, name: str, host: Host) -> None:
        """Check the names in a host against its stack."""
        stack = self.stack(name)
        if host.cc is not None:
            self.cc(host.cc, stack, ("hosts", name, "cc"))
        if host.cc_params is not None:
            cc = self.cc(host.cc or stack.default_cc, stack, ("hosts", name, "cc"))
            self.cc_params(host.cc_params, cc, stack, ("hosts", name, "cc_params"))
        own = AGGREGATION.get(stack.family)
        for key in ("gro", "lro"):
            if getattr(host.nic, key) and key != own:
                expected = f"{own}, which it has instead" if own else "false, as it merges nothing"
                raise Misplaced(("hosts", name, "nic", key), BadValue(f"{key} on {stack.name}", expected))
        if host.nic.qdisc is not None:
            _check_qdisc(host, host.nic.qdisc, stack, ("hosts", name, "nic"))
        if host.nic.veth and stack.family != "linux":
            bad = BadValue(f"true on {stack.name}", "false, as it does not count what packets take of memory")
            raise Misplaced(("hosts", name, "nic", "veth"), bad)
        if stack.guest:
            _check_guest(host, self.family(host), stack, ("hosts", name))
        self.sysctls(name, host, stack)

    def sysctls(self, host_name: str, host: Host, stack: Stack) -> dict[str, int]:
        """Return the host's sysctls as integers; three values become ``.min``, ``.default``, ``.max``."""
        values: dict[str, int] = {}
        for name, text in host.sysctl.items():
            path: Path = ("hosts", host_name, "sysctl", name)
            triple = [f"{name}.{part}" for part in PARTS]
            if stack.any_sysctl:
                values[name] = _whole(text, path)
                continue
            if name in stack.sysctls:
                names = [name]
            elif triple[0] in stack.sysctls:
                names = triple
            else:
                raise Misplaced(path, self.unknown_sysctl(name, stack))
            words = text.split()
            if len(words) != len(names):
                expected = (
                    "three whole numbers: minimum, default, maximum" if len(names) == 3 else "one value"
                )
                raise Misplaced(path, BadValue(shown(text), expected))
            for own, word in zip(names, words, strict=True):
                if own in values:
                    raise Misplaced(path, BadValue(f"a second value for {own}", "one value for each sysctl"))
                values[own] = _sysctl_value(word, stack, own, path)
        return values

    def unknown_sysctl(self, name: str, stack: Stack) -> BadValue:
        """Return what to say of a sysctl that a stack does not have."""
        others: dict[str, list[str]] = {}
        for other in self.catalogue.stacks.values():
            if other.family != stack.family:
                others.setdefault(_SYSTEMS.get(other.family, other.family), []).extend(other.settable())
        hint = hints.sysctl(name, stack.name, stack.settable(), others)
        if hint is None:
            near = nearest_names(name, stack.settable(), 3)
            hint = f"near it: {', '.join(near)}" if near else "`cwndlab dev schema` lists them"
        expected = f"a sysctl that {stack.name} models"
        return BadValue(f"the unknown sysctl {shown(name)}", expected, hint, of_key=True)

    def raised(self, flows: Sequence[PlannedFlow]) -> dict[str, dict[str, int]]:
        """Return by host the maxima of socket buffers, raised so that what is asked for fits."""
        values: dict[str, dict[str, int]] = {}
        for flow in flows:
            for end, sysctl, asked in zip(
                (flow.from_, flow.to), _BUFFER_MAXIMA, self.buffers(flow), strict=True
            ):
                known = self.stack(origin(end, self.spec.hosts)).sysctls.get(sysctl)
                if known is not None and asked is not None and asked > known.default:
                    host = values.setdefault(end, {})
                    host[sysctl] = max(asked, host.get(sysctl, 0))
        return values

    def host_piece(self, name: str, host: Host, mtu: int, raised: dict[str, int]) -> Piece[contract.Host]:
        """Return a host of the Scenario, the same in all cells in which it is made of the same."""
        own = self.rows.of(("hosts", origin(name, self.spec.hosts)), ("network", "family"))
        key = (name, own, mtu, tuple(raised.items()))
        return self.known.hosts.of(key, self.piece, self.host, name, host, mtu, raised)

    def host(self, name: str, host: Host, mtu: int, raised: dict[str, int]) -> contract.Host:
        """Return a host of the Scenario."""
        stack = self.stack(origin(name, self.spec.hosts))
        most = mtu - self.headers(host)
        if host.mss is not None and host.mss > most:
            bad = BadValue(shown(str(host.mss)), f"at most {most}, as the host's link has an MTU of {mtu}")
            raise Misplaced(("hosts", origin(name, self.spec.hosts), "mss"), bad)
        _check_tso(host.nic, host.mss or most, ("hosts", origin(name, self.spec.hosts), "nic"))
        _check_ecn(host, stack, ("hosts", origin(name, self.spec.hosts), "ecn"))
        made: contract.Host = {
            "name": name,
            "stack": stack.name,
            "hz": host.hz or stack.hz,
            "mss": host.mss or most,
            "ecn": cast(contract.Ecn, host.ecn or stack.ecn),
            "sysctl": {
                **raised,
                **self.sysctls(origin(name, self.spec.hosts), host, stack),
            },
            "nic": {
                "tx_queue": tx_queue(host.nic),
                "full": cast(contract.WhenFull, host.nic.full or "enobufs"),
                "tso": host.nic.tso,
                "tso_max": host.nic.tso_max,
                "gro": host.nic.gro,
                "lro": host.nic.lro,
                "coalesce": _coalesce(host),
            },
            "ack_every": host.ack_every.segments if host.ack_every else None,
            "noise": _noise(host.noise),
            "egress": self.egress(host.egress, ("hosts", origin(name, self.spec.hosts), "egress")),
            "ingress": self.ingress(host.ingress, ("hosts", origin(name, self.spec.hosts), "ingress")),
        }
        if self.family(host) == "ipv6":
            made["ip"] = "ipv6"
        if host.nic.veth:
            made["nic"]["veth"] = True
        if host.cheats is not None:
            made["cheats"] = _cheat(host.cheats)
        return made

    def egress(self, egress: Egress | None, path: Path) -> contract.Egress | None:
        """Return netem at a host's egress."""
        if egress is None:
            return None
        if egress.limit == 0:
            raise Misplaced((*path, "limit"), BadValue("0p", "at least 1p"))
        return {
            "limit_packets": NETEM_LIMIT if egress.limit is None else egress.limit,
            "delay_ns": egress.delay or 0,
            "jitter": self.jitter(egress.jitter, (*path, "jitter")),
            "loss": self.loss(egress.loss, (*path, "loss")),
            "duplicate_ppb": egress.duplicate or 0,
            "corrupt_ppb": egress.corrupt or 0,
            "rate_bps": egress.rate,
        }

    def ingress(self, ingress: Ingress | None, path: Path) -> contract.Ingress:
        """Return the impairments at both places of a host's ingress."""
        stages = {} if ingress is None else dict(ingress.written())
        return {
            "before_gro": self.ingress_stage(stages.get("before_gro"), (*path, "before_gro")),
            "after_gro": self.ingress_stage(stages.get("after_gro"), (*path, "after_gro")),
        }

    def ingress_stage(self, stage: IngressStage | None, path: Path) -> contract.IngressStage | None:
        """Return the impairment at one place of a host's ingress."""
        if stage is None:
            return None
        match = stage.match or Match()
        if stage.loss is not None and stage.loss.nth is not None and stage.loss.nth.match is not None:
            problem = "belongs beside loss at a host's ingress"
            raise Misplaced((*path, "loss", "nth", "match"), BadValue(problem=problem))
        return {
            "loss": self.loss(stage.loss, (*path, "loss")),
            "duplicate_ppb": stage.duplicate or 0,
            "corrupt_ppb": stage.corrupt or 0,
            "dport": match.dport,
            "sport": match.sport,
            "min_payload": match.min_payload or 0,
        }


def _check_guest(host: Host, ip: str, stack: Stack, path: Path) -> None:
    """Refuse what belongs to the TCP of a kernel, on a host with a guest."""
    kernel_only = {
        ("sndbuf",): buffer(host.sndbuf) is not None and not stack.packets,
        ("rcvbuf",): buffer(host.rcvbuf) is not None and not stack.packets,
        ("ack_every",): host.ack_every is not None,
        ("cheats",): host.cheats is not None,
        ("nic", "tso"): host.nic.tso,
    }
    for key, is_set in kernel_only.items():
        if is_set:
            raise Misplaced(
                (*path, *key), BadValue(problem=f"not for {stack.name}, which is no kernel's TCP")
            )
    if ip == "ipv6" and stack.packets:
        raise Misplaced((*path, "family"), BadValue("ipv6", f"ipv4, as {stack.name} has packets of IPv4"))
    agreed = ("accept",) if stack.packets else ()
    if host.ecn not in (None, "on", "off", *agreed):
        expected = "on, off or accept" if agreed else f"on or off, as {stack.name} agrees on nothing"
        raise Misplaced((*path, "ecn"), BadValue(shown(str(host.ecn)), expected))


def _check_qdisc(host: Host, qdisc: AnyQueue, stack: Stack, path: Path) -> None:
    """Refuse a queue discipline of Linux at an interface that cannot have it, or has another queue."""
    if stack.family != "linux":
        raise Misplaced((*path, "qdisc"), BadValue(f"{qdisc.kind} on {stack.name}", "a host with Linux"))
    if host.nic.tx_queue is not None:
        bad = BadValue("a tx_queue beside a qdisc", "one or the other: the qdisc stands in its place")
        raise Misplaced((*path, "tx_queue"), bad)
    if host.egress is not None:
        bad = BadValue(f"{qdisc.kind} beside egress", "one or the other: either is the root at the interface")
        raise Misplaced((*path, "qdisc"), bad)
    limit = qdisc.given("limit")
    if isinstance(limit, Bdp):
        raise Misplaced((*path, "qdisc", "limit"), BadValue(str(limit), "a number of packets or bytes"))


def _check_ecn(host: Host, stack: Stack, path: Path) -> None:
    """Refuse Accurate ECN of a system that does not have it."""
    if host.ecn in ACCURATE and not (stack.accurate_ecn or stack.guest):
        expected = f"off, accept or on, as {stack.name} has no Accurate ECN"
        raise Misplaced(path, BadValue(shown(host.ecn), expected))
    if host.ecn == "on-accept-accurate" and stack.family == "freebsd":
        expected = f"accurate or accept-accurate, as {stack.name} has no sysctl for that"
        raise Misplaced(path, BadValue(shown(host.ecn), expected))


def _check_tso(nic: Nic, mss: int, path: Path) -> None:
    """Refuse a largest super-packet that is none."""
    if nic.tso_max is None:
        return
    if not nic.tso:
        raise Misplaced((*path, "tso_max"), BadValue(problem="needs tso: true beside it"))
    if not mss <= nic.tso_max <= TSO_MAX:
        expected = f"a size from {units.format_size(mss)}, the MSS, to {units.format_size(TSO_MAX)}"
        raise Misplaced((*path, "tso_max"), BadValue(units.format_size(nic.tso_max), expected))


def _coalesce(host: Host) -> contract.Coalesce | None:
    """Return the interrupt moderation as written, or what aggregation needs to have anything to merge."""
    written = host.nic.coalesce
    aggregates = host.nic.gro or host.nic.lro
    if written is None and not aggregates and host.ack_every is None:
        return None
    time = ACK_EVERY_WAIT if host.ack_every else COALESCE_TIME
    frames = COALESCE_FRAMES if aggregates else 0
    if written is not None:
        time = time if written.time is None else written.time
        frames = frames if written.frames is None else written.frames
    return {
        "time_ns": time,
        "frames": frames,
        "gro_flush_timeout_ns": (written and written.gro_flush_timeout) or 0,
        "napi_defer_hard_irqs": (written and written.napi_defer_hard_irqs) or 0,
    }


def _cheat(cheats: Cheats) -> contract.Cheat:
    if cheats.ack_division is not None:
        return {"kind": "ack-division", "parts": cheats.ack_division}
    if cheats.duplicate_acks is not None:
        return {"kind": "duplicate-acks", "copies": cheats.duplicate_acks}
    return {"kind": "optimistic-acks", "rate_bps": cheats.optimistic_acks or 0}


def _noise(noise: Noise | None) -> contract.Noise | None:
    if noise is None:
        return None
    processing, stall = noise.processing, noise.stall
    return {
        "processing": {"mean_ns": processing.mean, "sd_ns": processing.sd} if processing else None,
        "stall": {"every_ns": stall.every, "length_ns": stall.length} if stall else None,
    }


def _whole(text: str, path: Path) -> int:
    """A sysctl of a stack that alone knows which values it takes."""
    try:
        return int(text)
    except ValueError:
        raise Misplaced(path, BadValue(shown(text), "a whole number")) from None


def _sysctl_value(word: str, stack: Stack, name: str, path: Path) -> int:
    sysctl = stack.sysctls[name]
    value = int(units.parse_bool(word)) if word in {"true", "false", "on", "off"} else int(word)
    if not sysctl.min <= value <= sysctl.max:
        raise Misplaced(path, BadValue(shown(word), f"{name} from {sysctl.min} to {sysctl.max}"))
    return value
