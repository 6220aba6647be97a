"""Write the test vectors of the queue disciplines, from plain models that share no code with the crate.

Run it in this directory: `python3 vectors.py`. It writes ../vectors/CASE.txt with lines

    link RATE_BPS OVERHEAD_BYTES MTU_BYTES
    queue JSON                                   the configuration
    in START_NS GAP_NS COUNT BYTES FLOW SRC DST ECN    packets numbered in order of time, then of these lines
    drop AT_NS PACKET REASON                     what happened, in order
    mark AT_NS PACKET
    start AT_NS PACKET                           the transmission starts

Each model follows the document named in its docstring with lists and floats; time is in nanoseconds.
"""

import json
from dataclasses import dataclass
from pathlib import Path

MS = 1_000_000


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

    def enqueue(self, now: int, packet: Packet) -> None:
        raise NotImplementedError

    def dequeue(self, now: int) -> Packet | None:
        raise NotImplementedError

    def backlog(self) -> int:
        """Packets waiting."""
        return len(self.queue)

    def drop(self, now: int, packet: Packet, why: str) -> None:
        self.log.append(f"drop {now} {packet.number} {why}")

    def mark(self, now: int, packet: Packet) -> bool:
        if packet.ecn == "not-ect":
            return False
        packet.ecn = "ce"
        self.log.append(f"mark {now} {packet.number}")
        return True


class Codel(Model):
    """RFC 8289 section 5, with 1 / sqrt(count) as Linux keeps it: 16 bits, one Newton step for each change of the
    count."""

    def __init__(self, limit: int, target: int, interval: int, ecn: bool, mtu: int) -> None:
        super().__init__()
        self.limit, self.target, self.interval, self.ecn, self.mtu = limit, target, interval, ecn, mtu
        self.first_above_time = 0
        self.drop_next = 0.0
        self.count = self.lastcount = 0
        self.dropping = False
        self.x = 1.0

    def enqueue(self, now: int, packet: Packet) -> None:
        if len(self.queue) >= self.limit:
            self.drop(now, packet, "overlimit")
        else:
            self.queue.append(packet)

    def newton(self) -> None:
        self.x = int(self.x * (3 - self.count * self.x**2) / 2 * 65536) / 65536

    def control_law(self, t: float) -> float:
        return t + self.interval * self.x

    def dodequeue(self, now: int) -> tuple[Packet | None, bool]:
        ok_to_drop = False
        if not self.queue:
            self.first_above_time = 0
            return None, False
        packet = self.queue.pop(0)
        if now - packet.arrived < self.target or sum(p.size for p in self.queue) <= self.mtu:
            self.first_above_time = 0
        elif self.first_above_time == 0:
            self.first_above_time = now + self.interval
        elif now > self.first_above_time:
            ok_to_drop = True
        return packet, ok_to_drop

    def dequeue(self, now: int) -> Packet | None:
        packet, ok_to_drop = self.dodequeue(now)
        if packet is None:
            self.dropping = False
            return None
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                self.newton()
                if self.ecn and self.mark(now, packet):
                    self.drop_next = self.control_law(self.drop_next)
                    return packet
                self.drop(now, packet, "aqm")
                packet, ok_to_drop = self.dodequeue(now)
                if not ok_to_drop:
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next)
        elif ok_to_drop:
            if not (self.ecn and self.mark(now, packet)):
                self.drop(now, packet, "aqm")
                packet, _ = self.dodequeue(now)
            self.dropping = True
            delta = self.count - self.lastcount
            if delta > 1 and now - self.drop_next < 16 * self.interval:
                self.count = delta
                self.newton()
            else:
                self.count, self.x = 1, 65535 / 65536
            self.lastcount = self.count
            self.drop_next = self.control_law(now)
        return packet


def run(name: str, model: Model, queue: dict, rate: int, groups: list[tuple], overhead: int = 0, mtu: int = 1500):
    """Send groups of packets (start, gap, count, bytes, flow, src, dst, ecn) through a link and write the vector."""
    arrivals = [
        (start + i * gap, line, i) for line, (start, gap, count, *_) in enumerate(groups) for i in range(count)
    ]
    packets = []
    for number, (at, line, _) in enumerate(sorted(arrivals)):
        _, _, _, size, flow, src, dst, ecn = groups[line]
        packets.append(Packet(number, at, size + overhead, flow, src, dst, ecn))
    free = 0
    waiting = 0

    def serve(until: float) -> None:
        """Start whatever can start at or before `until`."""
        nonlocal free, waiting
        while True:
            backlog = model.backlog()
            start = max(free, waiting)
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
    lines = [f"link {rate} {overhead} {mtu}", f"queue {json.dumps(queue)}"]
    lines += ["in " + " ".join(map(str, group)) for group in groups]
    lines += model.log
    (Path(__file__).parent.parent / "vectors" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    drops = sum(line.startswith("drop") for line in model.log)
    marks = sum(line.startswith("mark") for line in model.log)
    print(f"{name}: {len(packets)} packets, {drops} drops, {marks} marks")


def codel() -> None:
    """1 ms a packet, offered 2.2, then 0.4, then 2.2 packets per ms; half of the packets of one case are ECN-capable."""
    for name, ecn, limit in (("codel", False, 1000), ("codel-ecn", True, 1000), ("codel-limit", False, 60)):
        queue = {"kind": "codel", "limit_packets": limit, "target_ns": 5 * MS, "interval_ns": 100 * MS, "ecn": ecn}
        groups = [
            (100, 909_091, 500, 1500, 1, 0, 1, "ect0" if ecn else "not-ect"),
            (300, 909_091, 500, 1500, 2, 0, 1, "not-ect"),
            (900 * MS + 7, 2_500_001, 40, 1500, 1, 0, 1, "not-ect"),
            (1500 * MS + 7, 454_547, 700, 1500, 1, 0, 1, "ect0" if ecn else "not-ect"),
        ]
        run(name, Codel(limit, 5 * MS, 100 * MS, ecn, 1500), queue, 12_000_000, groups)


if __name__ == "__main__":
    codel()
