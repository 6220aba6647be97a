"""Parts that plain models of queue disciplines share: packets, the generator, deficit round robin, a link."""

import json
from dataclasses import dataclass

MS = 1_000_000
MTU = 1500

RATE = 12_000_000
"""1500 bytes take 1 ms."""


def timer_period(wanted: int) -> int:
    """Return the time between two runs of a timer of Linux that is set anew, `wanted` ns later, as it runs.

    With 1,000 ticks a second. A timer waits in a slot of 1 tick, from 63 ticks on of 8, from 504 on of 64 and
    so on, and runs when the slot behind its own begins.
    """
    ticks, slot = -(-wanted // MS), 1
    while ticks >= 63 * slot:
        slot *= 8
    return (ticks // slot + 1) * slot * MS


@dataclass
class Packet:
    """A packet; `size` includes the overhead."""

    number: int
    arrived: int
    size: int
    flow: int
    src: int
    dst: int
    ecn: str


def truesize(packet: Packet) -> int:
    """Return its memory in Linux: sk_buff, and data with headroom and skb_shared_info in a power of two."""
    return 256 + max(512, 1 << (packet.size + 384 - 1).bit_length())


class Random:
    """The engine's documented generator: a stream named by seed, repeat, purpose and entity; xoshiro256++."""

    MASK = (1 << 64) - 1

    def __init__(self, seed: int, repeat: int, purpose: str, entity: str) -> None:
        words = [seed, repeat]
        for name in (purpose, entity):
            words += [len(name), *name.encode()]
        state = 0
        for word in words:
            state = self.mix(state + 0x9E3779B97F4A7C15 + word)
        self.s = []
        for _ in range(4):
            state += 0x9E3779B97F4A7C15
            self.s.append(self.mix(state))

    @classmethod
    def mix(cls, z: int) -> int:
        z &= cls.MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & cls.MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & cls.MASK
        return z ^ (z >> 31)

    def u64(self) -> int:
        def rotated(x: int, k: int) -> int:
            return (x << k | x >> (64 - k)) & self.MASK

        s = self.s
        result = (rotated((s[0] + s[3]) & self.MASK, 23) + s[0]) & self.MASK
        shifted = s[1] << 17 & self.MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = rotated(s[3], 45)
        return result

    def chance(self, probability: float) -> bool:
        return self.u64() / 2**64 < probability


class Model:
    """A queue discipline and the log of what it does."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.queue: list[Packet] = []

    # Each discipline defines both; there is no queue without one.
    def enqueue(self, now: int, packet: Packet) -> None:
        raise NotImplementedError

    def dequeue(self, now: int) -> Packet | None:
        raise NotImplementedError

    def backlog(self) -> int:
        """Packets waiting."""
        return len(self.queue)

    def ready(self) -> int:
        """Earliest time of the next dequeue."""
        return 0

    def drop(self, now: int, packet: Packet, why: str) -> None:
        self.log.append(f"drop {now} {packet.number} {why}")

    def mark(self, now: int, packet: Packet) -> bool:
        if packet.ecn == "not-ect":
            return False
        packet.ecn = "ce"
        self.log.append(f"mark {now} {packet.number}")
        return True


class Flow:
    """A queue of a flow-queueing discipline and its place in the lists."""

    def __init__(self, aqm: Model) -> None:
        self.aqm = aqm
        self.deficit = 0


class Drr(Model):
    """RFC 8290 section 4.2: the scheduler. One queue for each flow: the vectors have no hash collisions."""

    def __init__(self, quantum: int) -> None:
        super().__init__()
        self.quantum = quantum
        self.flows: dict[int, Flow] = {}
        self.new: list[Flow] = []
        self.old: list[Flow] = []

    # The discipline inside each flow's queue: a subclass names it.
    def make(self) -> Model:
        raise NotImplementedError

    def backlog(self) -> int:
        return sum(len(flow.aqm.queue) for flow in self.flows.values())

    def bytes(self) -> int:
        return sum(packet.size for flow in self.flows.values() for packet in flow.aqm.queue)

    def flow(self, packet: Packet) -> Flow:
        if packet.flow not in self.flows:
            self.flows[packet.flow] = Flow(self.make())
            self.flows[packet.flow].aqm.log = self.log
        return self.flows[packet.flow]

    def activate(self, flow: Flow) -> None:
        if flow not in self.new and flow not in self.old:
            self.new.append(flow)
            flow.deficit = self.quantum

    def dequeue(self, now: int) -> Packet | None:
        while True:
            if not self.new and not self.old:
                return None
            queues = self.new or self.old
            flow = queues[0]
            if flow.deficit <= 0:
                flow.deficit += self.quantum
                queues.pop(0)
                self.old.append(flow)
                continue
            packet = flow.aqm.dequeue(now)
            if packet is None:
                queues.pop(0)
                if queues is self.new and self.old:
                    self.old.append(flow)
                continue
            flow.deficit -= packet.size
            return packet


def aqm() -> Random:
    return Random(7, 0, "aqm", "link")


def run(name: str, model: Model, queue: dict, rate: int, groups: list[tuple]) -> None:
    """Send groups of packets through a link and print the vector.

    A group is (start, gap, count, bytes, flow, src, dst, ecn).
    """
    arrivals = [
        (start + i * gap, line, i)
        for line, (start, gap, count, *_) in enumerate(groups)
        for i in range(count)
    ]
    packets = []
    for number, (at, line, _) in enumerate(sorted(arrivals)):
        _, _, _, size, flow, src, dst, ecn = groups[line]
        packets.append(Packet(number, at, size, flow, src, dst, ecn))
    free = 0
    waiting = 0

    def serve(until: float) -> None:
        """Start whatever can start at or before `until`."""
        nonlocal free, waiting
        while True:
            backlog = model.backlog()
            start = max(free, waiting, model.ready())
            if backlog == 0 or start > until:
                return
            packet = model.dequeue(start)
            if packet is not None:
                model.log.append(f"start {start} {packet.number}")
                work = packet.size * 8 * 1_000_000_000
                assert work % rate == 0, "choose rates at which every packet takes whole nanoseconds"
                free = start + work // rate

    for packet in packets:
        serve(packet.arrived)
        if model.backlog() == 0:
            waiting = packet.arrived
        model.enqueue(packet.arrived, packet)
        serve(packet.arrived)
    serve(float("inf"))
    lines = [f"vector {name}", f"link {rate} 0 {MTU}", f"queue {json.dumps(queue)}"]
    lines += ["in " + " ".join(map(str, group)) for group in groups]
    print("\n".join(lines + model.log))
