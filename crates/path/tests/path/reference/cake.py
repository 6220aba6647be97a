"""CAKE."""

from fractions import Fraction

from model import MS, Model, Packet, Random, aqm, run


class CakeFlow:
    """A flow's queue with COBALT: CoDel whose count decays, and BLUE (section 3.3 of the paper)."""

    def __init__(self, cake: "Cake", src: int, dst: int) -> None:
        self.cake, self.src, self.dst = cake, src, dst
        self.queue: list[Packet] = []
        self.set = "none"
        self.deficit = Fraction(0)
        self.count = 0
        self.x = 0.0  # 1 / sqrt(count); Linux starts with 0
        self.drop_next = 0.0
        self.dropping = False
        self.blue = 0
        self.blue_time = 0

    def bytes(self) -> int:
        return sum(packet.size for packet in self.queue)

    def set_count(self, count: int) -> None:
        self.count = count
        if count < 16:
            self.x = 1 / max(count, 1) ** 0.5
        else:
            self.x *= (3 - count * self.x**2) / 2

    def later(self, time: float) -> float:
        return time + self.cake.interval * self.x

    def full(self, now: int) -> None:
        if now - self.blue_time > self.cake.target:
            self.blue = min(self.blue + 2**24, 2**32 - 1)
            self.blue_time = now
        self.dropping = True
        self.drop_next = now
        self.count = max(self.count, 1)

    def emptied(self, now: int) -> None:
        if self.blue > 0 and now - self.blue_time > self.cake.target:
            self.blue = max(self.blue - 2**20, 0)
            self.blue_time = now
        self.dropping = False
        if self.count > 0 and now >= self.drop_next:
            self.set_count(self.count - 1)
            self.drop_next = self.later(self.drop_next)

    def should_drop(self, now: int, packet: Packet) -> bool:
        sojourn = now - packet.arrived
        bad = sojourn > self.cake.target and sojourn > 4 * self.cake.mtu_time
        due = self.count > 0 and now >= self.drop_next
        late = now > self.drop_next
        drop = False
        if bad and not self.dropping:
            self.drop_next = self.later(now)
        if bad:
            self.count = max(self.count, 1)
        self.dropping = bad
        if due and bad:
            drop = not self.cake.mark(now, packet)
            self.set_count(self.count + 1)
            self.drop_next = self.later(self.drop_next)
            late = now > self.drop_next
        elif due:
            while self.count > 0 and now >= self.drop_next:
                self.set_count(self.count - 1)
                self.drop_next = self.later(self.drop_next)
            late = now > self.drop_next
        if self.blue > 0 and not drop:
            drop = self.cake.random.u64() >> 32 < self.blue
        if self.count == 0:
            self.drop_next = now + self.cake.interval
        elif late and not drop:
            self.drop_next = now
        return drop


class Cake(Model):
    """Høiland-Jørgensen, Täht, Morton, "Piece of CAKE", 2018, sections 3.1 to 3.3: one tin."""

    def __init__(self, config: dict, mtu: int, random: Random) -> None:
        super().__init__()
        self.c, self.random = config, random
        random.u64()  # the hash's perturbation
        rate = config["bandwidth_bps"] // 8 if config["bandwidth_bps"] else None
        self.per_byte = 1_000_000_000 // rate if rate else 0
        self.quantum = min(max(rate >> 12, 300), 1514) if rate else 1514
        self.mtu_time = mtu * self.per_byte
        wanted = config["rtt_ns"] // 20
        self.target = max(wanted, self.mtu_time * 3 // 2)
        self.interval = max(config["rtt_ns"] + self.target - wanted, 2 * self.target)
        self.flows: dict[int, CakeFlow] = {}
        self.new: list[CakeFlow] = []
        self.old: list[CakeFlow] = []
        self.decaying: list[CakeFlow] = []
        self.next = self.failsafe = 0

    def backlog(self) -> int:
        return sum(len(flow.queue) for flow in self.flows.values())

    def ready(self) -> int:
        return int(min(self.next, self.failsafe))

    @staticmethod
    def memory(packet: Packet) -> int:
        size = 512
        while size < packet.size + 384:
            size *= 2
        return 256 + size

    def share(self, flow: CakeFlow) -> Fraction:
        bulk = [other for other in self.flows.values() if other.set == "bulk"]
        load = 1
        if self.c["flow_mode"] in ("dual-srchost", "triple-isolate"):
            load = max(load, sum(other.src == flow.src for other in bulk))
        if self.c["flow_mode"] in ("dual-dsthost", "triple-isolate"):
            load = max(load, sum(other.dst == flow.dst for other in bulk))
        return Fraction(self.quantum * (65535 // load), 65536)

    def enqueue(self, now: int, packet: Packet) -> None:
        flow = self.flows.setdefault(packet.flow, CakeFlow(self, packet.src, packet.dst))
        if self.backlog() == 0 and self.next < now:
            self.next = self.failsafe = now
        flow.queue.append(packet)
        if flow.set in ("none", "decaying"):
            if flow in self.decaying:
                self.decaying.remove(flow)
            flow.set = "sparse"
            self.new.append(flow)
            flow.deficit = self.share(flow)
        elif flow.set == "wait":
            flow.set = "bulk"
        while sum(self.memory(p) for f in self.flows.values() for p in f.queue) > self.c["memlimit_bytes"]:
            fattest = max(self.flows.values(), key=CakeFlow.bytes)
            fattest.full(now)
            self.drop(now, fattest.queue.pop(0), "overlimit")

    def dequeue(self, now: int) -> Packet | None:
        first = True
        while self.backlog() > 0:
            queues = (self.decaying if first else []) or self.new or self.old
            first = False
            flow = queues[0]
            if flow.deficit <= 0:
                if flow.set == "sparse":
                    flow.set = "bulk" if flow.queue else "wait"
                flow.deficit += self.share(flow)
                queues.remove(flow)
                self.old.append(flow)
                continue
            packet = None
            while flow.queue:
                packet = flow.queue.pop(0)
                if not flow.should_drop(now, packet) or not flow.queue:
                    break
                self.drop(now, packet, "aqm")
                packet = None
            if packet is None:
                flow.emptied(now)
                queues.remove(flow)
                if flow.blue == 0 and flow.count == 0 and now >= flow.drop_next:
                    flow.set = "none"
                else:
                    flow.set = "decaying"
                    self.decaying.append(flow)
                continue
            flow.deficit -= packet.size
            self.next += packet.size * self.per_byte
            self.failsafe += packet.size * self.per_byte * 3 // 2
            return packet
        return None


def cake() -> None:
    """8 Mbit/s shaped on a faster link; three greedy flows of one host, one of another, a sparse one.

    The sizes differ so that no two flows have equally many bytes: which would lose a packet is not specified.
    """
    base = {
        "kind": "cake",
        "bandwidth_bps": 8_000_000,
        "rtt_ns": 100 * MS,
        "flow_mode": "triple-isolate",
        "memlimit_bytes": 4 << 20,
    }
    groups = [
        (100, 4_000_000, 220, 1500, 1, 0, 9, "not-ect"),
        (200, 4_100_000, 220, 1490, 2, 0, 8, "ect0"),
        (300, 4_200_000, 220, 1003, 3, 0, 7, "not-ect"),
        (400, 2_000_000, 400, 1471, 4, 1, 6, "not-ect"),
        (500, 20_000_000, 40, 120, 5, 2, 9, "not-ect"),
        (2500 * MS + 100, 5_000_000, 100, 1500, 4, 1, 6, "not-ect"),
    ]
    for name, change in (
        ("cake", {}),
        ("cake-flows", {"flow_mode": "flows"}),
        ("cake-limit", {"memlimit_bytes": 120_000}),
        ("cake-unlimited", {"bandwidth_bps": None, "memlimit_bytes": 300_000, "flow_mode": "dual-srchost"}),
    ):
        config = base | change
        run(
            name,
            Cake(config, 1500, aqm()),
            config,
            80_000_000 if config["bandwidth_bps"] else 8_000_000,
            groups,
        )
