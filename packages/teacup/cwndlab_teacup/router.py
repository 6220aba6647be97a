"""The router of TEACUP configurations: which hosts are on which side, and its pipes as links with queues."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from cwndlab.errors import shown
from cwndlab.experiment import units
from cwndlab.experiment.catalogue import catalogue
from cwndlab_teacup.reader import ACCESS_RATE, Reader, safe
from cwndlab_teacup.sweep import Leaves
from cwndlab_teacup.values import Place, Text, as_text, refuse

AVERAGE_PACKET = 600
"""Bytes that TEACUP takes a packet for where a queue is to hold a `bdp`."""

MIN_BDP = 2048
"""Bytes of a queue that is to hold a `bdp`, at least."""

PIPE = frozenset(
    [
        "source",
        "dest",
        "rate",
        "delay",
        "loss",
        "rtt",
        "queue_size",
        "queue_size_mult",
        "queue_disc",
        "queue_disc_params",
        "bidir",
        "number",
    ]
)
"""Parameters of a pipe that mean something here."""

_NAMED = 12
"""Hosts, and pipes, that a message names at most."""


@dataclass(frozen=True)
class Crossing:
    """A router, and the hosts of the traffic on both of its sides."""

    router: str
    """Name of the router; empty where there is only one."""
    pipes: list[dict[str, Any]]
    left: list[str]
    right: list[str]

    @property
    def ways(self) -> tuple[str, str]:
        """The keys of the link from left to right, and back."""
        if not self.router:
            return "network.dumbbell.bottleneck", "network.dumbbell.reverse"
        link = f"network.links.{safe(self.router)}"
        return link, f"{link}.reverse"

    def leaves(self, left: list[str], right: list[str]) -> Leaves:
        """Leaves of the experiment file for these hosts at both sides, but for the link between them."""
        if not self.router:
            return {
                "network.dumbbell.left": left,
                "network.dumbbell.right": right,
                "network.dumbbell.access": {"rate": ACCESS_RATE, "overhead": 38},
            }
        link = self.ways[0]
        ends = f"{safe(self.router)}-1", f"{safe(self.router)}-2"
        found: Leaves = {f"{link}.from": ends[0], f"{link}.to": ends[1], f"{link}.bottleneck": True}
        for node, hosts in zip(ends, (left, right), strict=True):
            for host in hosts:
                cable = {"from": host, "to": node, "rate": ACCESS_RATE, "overhead": 38}
                found |= {f"network.links.access-{host}.{key}": value for key, value in cable.items()}
        return found


@dataclass
class Router(Reader):
    """TPCONF_router_queues."""

    def _crossings(
        self, hosts: list[str], traffic: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]
    ) -> list[Crossing]:
        """The routers that these hosts' traffic crosses; more of it goes from left to right than back."""
        queues = self.source.get("TPCONF_router_queues")
        several = isinstance(queues, dict) and len(queues) > 1
        found = []
        for router, of_router in queues.items() if isinstance(queues, dict) else [("", queues)]:
            pipes = self._pipes(of_router, variables)
            sides = self._sides(hosts, pipes, needed=not several)
            if sides is None:
                self._say("dropped", pipes[0]["place"], f"router {as_text(router)}: without traffic")
                continue
            left, right = sides
            if sum(flow["from"] in right for flow in traffic) > sum(flow["from"] in left for flow in traffic):
                # The bottleneck is the direction that most of the data take.
                left, right = right, left
            found.append(Crossing(as_text(router) if several else "", pipes, left, right))
        place = self.source.place("TPCONF_router_queues")
        behind = [host for crossing in found for host in (*crossing.left, *crossing.right)]
        for host in hosts:
            if behind.count(host) > 1:
                refuse(place, f"host {host} is behind two routers, which has no counterpart")
            if host not in behind:
                self._say(
                    "dropped",
                    found[0].pipes[0]["place"] if found else place,
                    f"host {host}: not behind the router",
                )
        return found

    def _pipes(self, queues: Any, variables: Mapping[str, Any]) -> list[dict[str, Any]]:
        place = self.source.place("TPCONF_router_queues")
        if not isinstance(queues, list | tuple):
            refuse(place, "TPCONF_router_queues is no list")
        pipes = []
        for entry in queues:
            if not isinstance(entry, tuple | list) or len(entry) != 2:
                refuse(place, "expected (number, parameters) in TPCONF_router_queues")
            at = entry[1].place(0) if isinstance(entry[1], Text) else place
            positional, named = self._arguments(entry[1], variables, at)
            if positional:
                refuse(at, f"expected NAME=VALUE, not {shown(as_text(positional[0]))}")
            pipe = {**named, "place": at, "number": as_text(entry[0])}
            for end in ("source", "dest"):
                if end not in pipe:
                    refuse(at, f"a pipe without {end}")
            pipes.append(pipe)
            if as_text(pipe.get("bidir", "0")) == "1":
                pipes.append({**pipe, "source": pipe["dest"], "dest": pipe["source"]})
        if not pipes:
            refuse(place, "TPCONF_router_queues has no pipe")
        return pipes

    def _sides(
        self, hosts: list[str], pipes: list[dict[str, Any]], *, needed: bool
    ) -> tuple[list[str], list[str]] | None:
        """The hosts on both sides of a router; refused, if needed, where there are none."""
        # The first pipe may be of hosts that carry no traffic here.
        for pipe in pipes:
            right = [host for host in hosts if self._within(host, pipe["dest"], pipe["place"])]
            left = [h for h in hosts if h not in right and self._within(h, pipe["source"], pipe["place"])]
            if left and right:
                return left, right
        if needed:
            self._no_pipe(hosts, pipes)
        return None

    def _no_pipe(self, hosts: list[str], pipes: list[dict[str, Any]]) -> NoReturn:
        """Refuse pipes of which none has hosts of the traffic at both ends."""
        ends = []
        for host in hosts[:_NAMED]:
            known = self._addresses(host)
            ends.append(f"{host} ({', '.join(known) if known else 'no address in TPCONF_host_internal_ip'})")
        more = [f"{len(hosts) - _NAMED} more"] if len(hosts) > _NAMED else []
        looked = dict.fromkeys(f"{as_text(pipe['source'])} to {as_text(pipe['dest'])}" for pipe in pipes)
        refuse(
            pipes[0]["place"],
            f"no pipe leads from one end of the traffic to the other: hosts with traffic are "
            f"{', '.join(ends + more)}; looked for one at each end of {', '.join(list(looked)[:_NAMED])}",
        )

    def _between(
        self, pipes: list[dict[str, Any]], sources: list[str], dests: list[str]
    ) -> dict[str, Any] | None:
        """The pipe that packets pass on that way."""
        fitting = [
            pipe
            for pipe in pipes
            if any(self._within(host, pipe["source"], pipe["place"]) for host in sources)
            and any(self._within(host, pipe["dest"], pipe["place"]) for host in dests)
        ]
        for pipe in fitting[1:]:
            self._say(
                "dropped",
                pipe["place"],
                f"pipe {pipe['number']}: a second one in a direction; the first is for all",
            )
        return fitting[0] if fitting else None

    def _link(self, pipe: dict[str, Any] | None, crossing: Crossing) -> Leaves:
        if pipe is None:
            return {
                "rate": ACCESS_RATE,
                "delay": "0ms",
                "overhead": 14,
                "queue": {"kind": "pfifo", "limit": "1000p"},
            }
        at = pipe["place"]
        text = {key: as_text(value) for key, value in pipe.items() if key != "place"}
        dummynet = self._router_is_freebsd(crossing.router)
        rate = self._rate(text["rate"], at) if text.get("rate") else ACCESS_RATE
        delay = self._number(text.get("delay") or 0, at, "delay")
        if not 0 <= delay <= 10**7:
            refuse(at, f"a delay of {text.get('delay')} ms")
        link: Leaves = {
            # tc's class of HTB has a burst of its own, a pipe of dummynet has none.
            **({"rate": rate} if dummynet else {"shaper.kind": "htb", "shaper.rate": rate}),
            "delay": units.format_time(round(delay * 10**6)) if delay else "0ms",
            # tc counts the Ethernet header, dummynet does not.
            "overhead": 0 if dummynet else 14,
            "queue": self._queue(text, rate, delay, dummynet, at),
        }
        loss = self._number(text.get("loss") or 0, at, "loss")
        if not 0 <= loss <= 1:
            refuse(at, f"a loss rate of {text.get('loss')}; it must be from 0 to 1")
        link["loss"] = {"random": units.format_share(round(loss * 10**9))}
        if loss and not dummynet:
            self._say("approximated", at, "loss: before the queue here, behind it with TEACUP's netem")
        for key in sorted(text.keys() - PIPE):
            self._say("dropped", at, f"pipe {text['number']}: {key}={text[key]}")
        self._say("mapped", at, f"pipe {text['number']}: a direction of {crossing.ways[0]}")
        return link

    def _router_is_freebsd(self, router: str) -> bool:
        routers = [router] if router else self.source.get("TPCONF_router", [])
        systems = self.source.get("TPCONF_host_os", {})
        known = [systems.get(str(router)) for router in routers] if isinstance(systems, dict) else []
        if not any(known):
            place = self.source.place("TPCONF_router")
            self._say("approximated", place, "TPCONF_router: taken for Linux, as its system is not said")
        return "FreeBSD" in known

    def _queue(
        self, text: Mapping[str, str], rate: str, delay: Fraction, dummynet: bool, at: Place
    ) -> dict[str, Any]:
        kind = {"fifo": "pfifo", "": "pfifo"}.get(text.get("queue_disc", ""), text.get("queue_disc", ""))
        size = text.get("queue_size", "")
        known = catalogue().queues
        if kind not in known:
            self._say(
                "dropped", at, f"queue_disc {kind}: no model here; the file has it, and running it is refused"
            )
        params = {param.name: param.unit for param in known[kind].known()} if kind in known else {}
        in_bytes = params.get("limit") == "bytes"
        queue: dict[str, Any] = {"kind": kind}
        if size.lower() == "bdp":
            bits = units.parse_rate(rate)
            rtt = self._number(text["rtt"], at, "rtt") if text.get("rtt") else Fraction(2 * int(delay))
            whole = Fraction(bits) * rtt / 1000 / 8
            times = self._number(text.get("queue_size_mult") or 1, at, "queue_size_mult")
            if in_bytes or dummynet:
                count = max(int(int(whole) * times), MIN_BDP)
            else:
                count = max(int(int(whole / AVERAGE_PACKET) * times), 1)
            kind_in_bytes = in_bytes or dummynet
            queue["limit"] = units.format_size(count) if kind_in_bytes else f"{count}p"
            if dummynet and kind == "pfifo":
                queue["kind"] = "bfifo"
        elif not size:
            queue["limit"] = ("50p" if dummynet else "1000p") if not in_bytes else "1000B"
        elif size.isdigit():
            if len(size) > 12:
                refuse(at, f"a queue of {size}")
            queue["limit"] = f"{size}B" if in_bytes else f"{size}p"
        else:
            queue["limit"] = self._size(size, at)
            if kind == "pfifo":
                queue["kind"] = "bfifo"
        words = text.get("queue_disc_params", "").replace("=", " ").split()
        self._queue_params(queue, words, params, at)
        return queue

    def _queue_params(
        self, queue: dict[str, Any], words: list[str], params: Mapping[str, str], at: Place
    ) -> None:
        while words:
            word = words.pop(0)
            unit = params.get(word)
            if unit == "bool":
                queue[word] = True
            elif word.removeprefix("no") in params and params[word.removeprefix("no")] == "bool":
                queue[word.removeprefix("no")] = False
            elif unit is not None and words:
                value = words.pop(0)
                bare = re.fullmatch(r"[0-9]{1,12}", value)
                ends = {"ns": "us", "bytes": "B", "packets": "p", "bps": "bit"}
                if unit == "ppb":
                    queue[word] = units.format_share(round(self._number(value, at, word) * 10**9))
                elif unit == "bps":
                    queue[word] = self._rate(value, at)
                elif unit == "bytes" and not bare:
                    queue[word] = self._size(value, at)
                else:
                    queue[word] = value + ends.get(unit, "") if bare else value.replace("usec", "us")
                    if unit == "count" and bare:
                        queue[word] = int(value)
            else:
                self._say("dropped", at, f"queue_disc_params: {word}")
