"""Linux's FQ."""

from model import MS, RATE, Model, Packet, run


class Sender:
    """A flow: its packets, what it may still send, and when."""

    def __init__(self, credit: int) -> None:
        self.queue: list[Packet] = []
        self.credit = credit
        self.where = "nowhere"
        self.since: int | None = None
        self.next = 0
        self.order = 0


class Fq(Model):
    """tc-fq(8) and what its authors wrote of it: rounds of a quantum, new flows first, the fast path of 2023.

    The vectors have one band and no hash collisions.
    """

    WEIGHT = 3 << 16

    def __init__(self, config: dict) -> None:
        super().__init__()
        self.c = config
        self.fast: list[Packet] = []
        self.flows: dict[int, Sender] = {}
        self.new: list[Sender] = []
        self.old: list[Sender] = []
        self.late: list[Sender] = []
        self.order = 0
        self.awake = 0

    def backlog(self) -> int:
        return len(self.fast) + self.waiting()

    def waiting(self) -> int:
        return sum(len(flow.queue) for flow in self.flows.values())

    def ready(self) -> int:
        if self.ready_flows() or not self.late:
            return self.awake
        return min(flow.next for flow in self.late)

    def ready_flows(self) -> list[Sender]:
        return [flow for flow in self.flows.values() if flow.queue and flow.where == "listed"]

    def enqueue(self, now: int, packet: Packet) -> None:
        if self.waiting() >= self.c["limit_packets"]:
            self.drop(now, packet, "overlimit")
            return
        ready = self.ready_flows()
        if self.c["maxrate_bps"] is None and not ready and len(self.fast) < 8:
            self.fast.append(packet)
            return
        flow = self.flows.setdefault(packet.flow, Sender(self.c["initial_quantum_bytes"]))
        if len(flow.queue) >= self.c["flow_limit_packets"]:
            self.drop(now, packet, "overlimit")
            return
        if flow.where == "nowhere":
            flow.where = "listed"
            self.new.append(flow)
            rested = flow.since is not None and now - flow.since > self.c["refill_delay_ns"]
            if rested and 0 <= flow.credit < self.c["quantum_bytes"]:
                flow.credit = self.c["quantum_bytes"]
        flow.queue.append(packet)
        if not ready:
            self.awake = now

    def dequeue(self, now: int) -> Packet | None:
        if self.fast:
            return self.fast.pop(0)
        for flow in sorted(self.late, key=lambda flow: (flow.next, flow.order)):
            if flow.next <= now:
                self.late.remove(flow)
                flow.where = "listed"
                self.old.append(flow)
        while self.new or self.old:
            queues = self.new or self.old
            flow = queues.pop(0)
            if flow.credit <= 0:
                flow.credit += self.c["quantum_bytes"]
                self.old.append(flow)
            elif not flow.queue and queues is self.new:
                self.old.append(flow)
            elif not flow.queue:
                flow.where, flow.since = "nowhere", now
            elif max(flow.next, flow.queue[0].arrived) > now:
                flow.where, flow.order = "late", self.order
                self.order += 1
                self.late.append(flow)
            else:
                queues.insert(0, flow)
                return self.send(now, flow)
        return None

    def send(self, now: int, flow: Sender) -> Packet:
        packet = flow.queue.pop(0)
        threshold = self.c["ce_threshold_ns"]
        if threshold is not None and now - max(flow.next, packet.arrived) > threshold:
            self.mark(now, packet)
        flow.credit -= packet.size
        rate, size = self.c["maxrate_bps"], packet.size
        if rate is None:
            return packet
        if rate <= self.c["low_rate_threshold_bps"]:
            flow.credit = 0
        elif flow.credit > 0:
            return packet
        else:
            size = max(size, self.c["quantum_bytes"])
        pause = min(size * 10**9 // (rate // 8), 10**9)
        if flow.next:
            pause -= min(pause // 2, now - flow.next)
        flow.next = now + pause
        return packet


def fq() -> None:
    """Three flows at 1.2 times the rate together, one of them sparse; a burst; what each may not exceed."""
    base = {
        "kind": "fq",
        "limit_packets": 1000,
        "flow_limit_packets": 100,
        "quantum_bytes": 3000,
        "initial_quantum_bytes": 15_000,
        "maxrate_bps": None,
        "low_rate_threshold_bps": 550_000,
        "refill_delay_ns": 40 * MS,
        "orphan_mask": 65_535,
        "ce_threshold_ns": None,
        "horizon_ns": 10_000 * MS,
        "horizon_drop": True,
    }
    groups = [
        (100, 1_700_000, 300, 1500, 1, 0, 1, "ect0"),
        (300, 1_100_000, 500, 750, 2, 0, 1, "not-ect"),
        (500, 70_000_000, 10, 150, 3, 0, 1, "ect1"),
        (800 * MS, 0, 90, 1500, 4, 0, 1, "ect0"),
        (810 * MS, 100_000, 90, 1500, 1, 0, 1, "not-ect"),
    ]
    for name, change in (
        ("fq", {}),
        ("fq-limits", {"limit_packets": 60, "flow_limit_packets": 25, "quantum_bytes": 300}),
        ("fq-threshold", {"ce_threshold_ns": 5 * MS, "initial_quantum_bytes": 0}),
        ("fq-maxrate", {"maxrate_bps": 4_000_000}),
        ("fq-slow", {"maxrate_bps": 400_000, "flow_limit_packets": 20}),
    ):
        config = base | change
        run(name, Fq(config), config, RATE, groups)
