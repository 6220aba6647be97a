"""Traffic generators of TEACUP configurations as flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cwndlab.errors import shown
from cwndlab.experiment import units
from cwndlab_teacup.reader import Reader, safe
from cwndlab_teacup.values import Place, Text, as_text, refuse


@dataclass
class Traffic(Reader):
    """TPCONF_traffic_gens."""

    def _crosses(self, flow: Mapping[str, Any], left: Sequence[str], right: Sequence[str]) -> bool:
        """Whether what all its senders send passes the router."""
        senders, to = flow["responders"] or [flow["from"]], flow["to"]
        return any(
            to in near and all(sender in far for sender in senders)
            for near, far in ((left, right), (right, left))
        )

    def _copies(self, flows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Number of hosts behind that of each incast: all its responders; 0 for the others of them."""
        copies: dict[str, int] = {}
        for flow in flows:
            responders = flow["responders"]
            for host in responders:
                if host in copies:
                    refuse(flow["place"], f"host {host} answers in two incasts, which has no counterpart")
            copies |= dict.fromkeys(responders, 0) | ({flow["from"]: len(responders)} if responders else {})
        for flow in flows:
            for host in (flow["from"], flow["to"]):
                if host in copies and not flow["responders"]:
                    refuse(
                        flow["place"],
                        f"host {host} answers in an incast and has other flows, which has no counterpart",
                    )
        return copies

    def _traffic(self, variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        place = self.source.place("TPCONF_traffic_gens")
        entries = self.source.get("TPCONF_traffic_gens")
        if not isinstance(entries, list | tuple):
            refuse(place, "TPCONF_traffic_gens is no list")
        seen = set()
        for entry in entries:
            if not isinstance(entry, tuple | list) or len(entry) != 3:
                refuse(place, "expected (start, number, parameters) in TPCONF_traffic_gens")
            start, number, text = entry
            at = text.place(0) if isinstance(text, Text) else place
            if str(number) in seen:
                refuse(at, f"the number {shown(str(number))} of a traffic generator again")
            seen.add(str(number))
            positional, named = self._arguments(text, variables, at)
            task = str(positional[0]) if positional else ""
            name = safe(f"f{number}")
            begin = self._time(start, at, "start")
            flow = {"name": name, "place": at, "start": begin, "responders": []}
            made = self._task(task, flow, {str(key): value for key, value in named.items()}, variables, at)
            if made is not None:
                yield made

    def _task(
        self, task: str, flow: dict[str, Any], named: dict[str, Any], variables: Mapping[str, Any], at: Place
    ) -> dict[str, Any] | None:
        makers: Mapping[str, Callable[..., dict[str, Any]]] = {
            "start_iperf": self._iperf,
            "start_ping": self._ping,
            "start_nttcp": self._nttcp,
            "start_httperf_dash": self._dash,
            "start_httperf_incast": self._incast,
            "start_httperf_incast_n": self._incast,
        }
        if task not in makers:
            self._say("dropped", at, f"{task or 'a traffic generator without a name'}: has no counterpart")
            return None
        ends = {"start_ping": "dest", "start_httperf_incast": "servers", "start_httperf_incast_n": "servers"}
        other = ends.get(task, "server")
        for key in ("client", other):
            if not as_text(named.get(key, "")):
                refuse(at, f"{task}: {key} is not given")
        client, servers = self._host_of(named.pop("client"), at), as_text(named.pop(other)).split(",")
        if other != "servers" and len(servers) > 1:
            refuse(at, f"{task}: {other} is one host")
        flow |= {"from": client, "to": self._host_of(servers[0], at), "client": client}
        if other == "servers":
            flow["responders"] = [self._host_of(server, at) for server in servers]
        seconds = named.pop("duration", variables.get("V_duration", self.source.get("TPCONF_duration", "")))
        flow["stop"] = flow["start"] + self._time(seconds, at, "duration")
        if flow["stop"] <= flow["start"]:
            refuse(at, f"{task}: a duration of nothing")
        made = makers[task](flow, named, at)
        for key, value in named.items():
            if key not in ("port", "kill", "check", "wait") and as_text(value) != "":
                self._say("dropped", at, f"{task}: {key}={as_text(value)}")
        self._say("mapped", at, f"{task}: flow {flow['name']}")
        return made

    def _iperf(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        proto = as_text(named.pop("proto", "tcp"))
        rate = as_text(named.pop("rate", ""))
        if proto == "udp":
            # iperf 2 sends 1470-byte datagrams, at 1 Mbit/s unless told otherwise.
            flow["app"] = {"kind": "udp-cbr", "rate": self._rate(rate or "1M", at), "payload": 1470}
        elif rate:
            flow["app"] = {"kind": "rate-limited", "rate": self._rate(rate, at)}
        else:
            flow["app"] = {"kind": "bulk", "write": "128KiB"}
        if algorithm := as_text(named.pop("congestion_algo", "")):
            flow["cc"] = algorithm
        if size := as_text(named.pop("buf_size", "")):
            flow["sndbuf"] = flow["rcvbuf"] = self._size(size, at)
        return flow

    def _ping(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        rate = self._number(named.pop("rate", 1), at, "rate")
        if rate <= 0:
            refuse(at, "start_ping: the rate must be above 0")
        interval = round(Fraction(10**9) / rate)
        flow["app"] = {"kind": "ping", "interval": units.format_time(interval), "payload": 56}
        return flow

    def _nttcp(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        interval = self._number(named.pop("interval", "") or 1000, at, "interval")
        size = self._number(named.pop("psize", "") or 100, at, "psize")
        if interval <= 0 or size <= 0:
            refuse(at, "start_nttcp: interval and psize must be above 0")
        rate = round(size * 8 * 1000 / interval)
        flow["app"] = {"kind": "udp-cbr", "rate": units.format_rate(max(rate, 1)), "payload": int(size)}
        return flow

    def _dash(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        rate = self._number(named.pop("rate", "") or 500, at, "rate")
        cycle = self._number(named.pop("cycle", "") or 5, at, "cycle")
        flow["from"], flow["to"] = flow["to"], flow["from"]  # the server sends
        flow["app"] = {
            "kind": "video",
            "rate": units.format_rate(round(rate * 1000)),
            "chunk": units.format_time(round(cycle * 10**9)),
        }
        self._say("approximated", at, "start_httperf_dash: a video player that fetches a chunk each cycle")
        return flow

    def _incast(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        responders = flow["responders"]
        if wanted := as_text(named.pop("num_responders", "")):
            count = self._number(wanted, at, "num_responders")
            if not 1 <= count <= len(responders):
                refuse(at, f"num_responders: {wanted} of {len(responders)} servers")
            del responders[int(count) :]
        if len(set(responders)) < len(responders):
            refuse(at, "a server that answers twice in an incast has no counterpart")
        period = self._number(named.pop("period", ""), at, "period")
        size = self._number(named.pop("response_size", ""), at, "response_size")
        if period <= 0 or size <= 0:
            refuse(at, "an incast: period and response_size must be above 0")
        flow["from"], flow["to"] = responders[0], flow["client"]
        flow["app"] = {
            "kind": "incast",
            "size": units.format_size(round(size * 1024)),
            "think": units.format_time(round(period * 10**9)),
        }
        for key in ("sizes", "server_port_start", "config_dir", "config_in", "docroot"):
            named.pop(key, None)
        hosts = f"{len(responders)} copies of {responders[0]} answer"
        text = "the next round begins a period after the last answer, not after the request"
        self._say("approximated", at, f"an incast: {hosts}; {text}")
        return flow
