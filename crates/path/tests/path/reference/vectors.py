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
from fractions import Fraction
from pathlib import Path

MS = 1_000_000
MTU = 1500


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


class Codel(Model):
    """RFC 8289 section 5, with 1 / sqrt(count) as Linux keeps it.

    That is 16 bits, and one Newton step for each change of the count.
    """

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

    def standing(self) -> int:
        return sum(p.size for p in self.queue)

    def newton(self) -> None:
        """Take x to x (3 - count x^2) / 2 in Linux's integers.

        They wrap where FQ-CoDel's overflow makes the count jump.
        """
        x = int(self.x * 2**32)
        bracket = (3 * 2**32 - self.count * (x * x // 2**32)) % 2**64 // 4
        self.x = bracket * x % 2**64 // 2**31 // 2**16 % 2**16 / 2**16

    def control_law(self, t: float) -> float:
        return t + self.interval * self.x

    def dodequeue(self, now: int) -> tuple[Packet | None, bool]:
        ok_to_drop = False
        if not self.queue:
            self.first_above_time = 0
            return None, False
        packet = self.queue.pop(0)
        if now - packet.arrived < self.target or self.standing() <= self.mtu:
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
            if delta > 1 and self.lastcount and now - self.drop_next < 16 * self.interval:
                self.count = delta
                self.newton()
            else:
                self.count, self.x = 1, 65535 / 65536
            self.lastcount = self.count
            self.drop_next = self.control_law(now)
        return packet


class Red(Model):
    """Floyd and Jacobson, "Random Early Detection Gateways", 1993: figure 2, spacing of section 8.

    The average is kept, as in Linux, as an integer of bytes / w, and rounded down to bytes where it is used.
    """

    def __init__(self, config: dict, random: Random) -> None:
        super().__init__()
        self.c, self.random = config, random
        burst = config["burst_packets"]
        needed = burst + 1 - config["min_bytes"] / config["avpkt_bytes"]
        self.w = 0.5
        while needed > (1 - (1 - self.w) ** burst) / self.w:
            self.w /= 2
        self.scaled = 0
        self.idle: int | None = 0
        self.count = -1
        self.u = 0.0
        self.max_p = config["probability_ppb"] / 1e9
        self.adapted = 0

    def bytes(self, scaled: int) -> int:
        return int(scaled * self.w)

    def average(self, now: int) -> int:
        packet_time = self.c["avpkt_bytes"] * 8e9 / self.c["bandwidth_bps"]
        return int(self.scaled * (1 - self.w) ** ((now - self.idle) // packet_time))

    def adapt(self, now: int) -> None:
        """Floyd, Gummadi, Shenker 2001, section 4: every 0.5 s, alpha 0.01 or a quarter, beta 0.9."""
        low, high = self.c["min_bytes"], self.c["max_bytes"]
        while self.c["adaptive"] and self.adapted + 500 * MS <= now:
            self.adapted += 500 * MS
            avg = self.bytes(self.scaled if self.idle is None else self.average(self.adapted))
            if avg >= low + 0.6 * (high - low) and self.max_p <= 0.5:
                self.max_p += min(0.01, self.max_p / 4)
            elif avg < low + 0.4 * (high - low) and self.max_p >= 0.01:
                self.max_p *= 0.9

    def enqueue(self, now: int, packet: Packet) -> None:
        self.adapt(now)
        size = sum(p.size for p in self.queue)
        if self.idle is not None:
            self.scaled = self.average(now)
            self.idle = None
        else:
            self.scaled += size - self.bytes(self.scaled)
        avg = self.bytes(self.scaled)
        low, high = self.c["min_bytes"], self.c["max_bytes"]
        action = "pass"
        if avg < low:
            self.count = -1
        elif avg >= high:
            self.count = -1
            action = "forced"
        else:
            self.count += 1
            if self.count > 0 and self.count * self.max_p * (avg - low) / (high - low) >= self.u:
                self.count = 0
                action = "early"
            if self.count == 0:
                self.u = (self.random.u64() >> 32) / 2**32
        spared = action == "early" or (action == "forced" and not self.c["harddrop"])
        if spared and self.c["ecn"] and (self.mark(now, packet) or self.c["nodrop"]):
            action = "pass"
        if action != "pass":
            self.drop(now, packet, "aqm")
        elif size + packet.size > self.c["limit_bytes"]:
            self.drop(now, packet, "overlimit")
        else:
            self.queue.append(packet)
        if not self.queue:
            self.idle = now

    def dequeue(self, now: int) -> Packet | None:
        self.adapt(now)
        packet = self.queue.pop(0)
        if not self.queue:
            self.idle = now
        return packet


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


class FqCodel(Drr):
    """RFC 8290 section 4.1 and 5.2; the last MTU that CoDel spares is of the whole queue, as in Linux."""

    def __init__(self, config: dict, mtu: int) -> None:
        super().__init__(config["quantum_bytes"])
        self.c, self.mtu = config, mtu

    def make(self) -> Model:
        whole = self

        class OfAll(Codel):
            def standing(self) -> int:
                return whole.bytes()

        return OfAll(1 << 30, self.c["target_ns"], self.c["interval_ns"], self.c["ecn"], self.mtu)

    def enqueue(self, now: int, packet: Packet) -> None:
        flow = self.flow(packet)
        flow.aqm.queue.append(packet)
        self.activate(flow)
        if self.backlog() > self.c["limit_packets"]:
            fattest = max(self.flows.values(), key=lambda flow: sum(p.size for p in flow.aqm.queue))
            half = sum(p.size for p in fattest.aqm.queue) // 2
            dropped: list[Packet] = []
            while not dropped or (
                fattest.aqm.queue and len(dropped) < 64 and sum(p.size for p in dropped) < half
            ):
                dropped.append(fattest.aqm.queue.pop(0))
                self.drop(now, dropped[-1], "overlimit")
            fattest.aqm.count += len(dropped)


class Pie(Model):
    """RFC 8033 sections 4 and 5, with the delay of the last departed packet as the current delay.

    Section 5.3 allows a timestamp; the delay is 0 if the packet left nothing behind. With `dq_rate_estimator`
    it is that of section 4.3: bytes waiting over the average rate at which 2^14 bytes left, with weight 1/8.
    `gain` rounds a gain down as Linux's 56-bit integers do.
    """

    def __init__(self, config: dict, mtu: int, random: Random) -> None:
        super().__init__()
        self.c, self.mtu, self.random = config, mtu, random
        self.prob = self.accu = 0.0
        self.delay = self.old = 0
        self.burst: float = 150 * MS
        self.last: int | None = None
        self.count: int | None = None
        self.rate = 0.0
        self.updated = 0
        self.mark_below = 0.1 if config["ecn"] else -1

    def gain(self, sixteenths: int) -> float:
        scale = 1.0
        if self.prob < 0.1:
            scale = 1 / 2
            for limit in (0.01, 0.001, 0.0001, 0.00001, 0.000001):
                if self.prob < limit:
                    scale /= 4
        return int(sixteenths * (2**56 // 10**9) / 16 * scale) / 2**56

    def update(self, now: int) -> None:
        while self.updated + self.c["tupdate_ns"] <= now:
            self.updated += self.c["tupdate_ns"]
            target = self.c["target_ns"]
            if self.c["dq_rate_estimator"]:
                waiting = sum(packet.size for packet in self.queue)
                self.delay = int(waiting / self.rate) if self.rate else 0
            p = self.gain(self.c["alpha"]) * (self.delay - target) + self.gain(self.c["beta"]) * (
                self.delay - self.old
            )
            if self.prob >= 0.1 and p > 0.02:
                p = 0.02
            if self.delay > 250 * MS:
                p += 0.02
            self.prob = min(max(self.prob + p, 0.0), 1.0)
            if self.delay == 0 and self.old == 0 and not self.queue:
                self.prob *= 1 - 1 / 64
            quiet = self.delay < target // 2 and self.old < target // 2
            if self.prob == 0 and quiet and (self.rate or not self.c["dq_rate_estimator"]):
                self.burst, self.accu, self.last = 150 * MS, 0.0, None
                self.count, self.rate = None, 0.0
            self.old = self.delay

    def drop_early(self, packet: Packet) -> bool:
        if self.burst > 0 or (self.delay < self.c["target_ns"] // 2 and self.prob < 0.2):
            return False
        if sum(p.size for p in self.queue) < 2 * self.mtu:
            return False
        prob = self.prob
        if self.c["bytemode"]:
            prob *= packet.size / self.mtu
        self.accu = self.accu + prob if prob > 0 else 0.0
        if self.accu < 0.85:
            return False
        if self.accu >= 8.5:
            return True
        if self.random.chance(prob):
            self.accu = 0.0
            return True
        return False

    def full(self) -> bool:
        return len(self.queue) >= self.c["limit_packets"]

    def enqueue(self, now: int, packet: Packet) -> None:
        self.update(now)
        if self.full():
            self.accu = 0.0
            self.drop(now, packet, "overlimit")
        elif not self.drop_early(packet) or (self.prob <= self.mark_below and self.mark(now, packet)):
            self.queue.append(packet)
        else:
            self.accu = 0.0
            self.drop(now, packet, "aqm")

    def dequeue(self, now: int) -> Packet | None:
        self.update(now)
        if not self.queue:
            return None
        packet = self.queue.pop(0)
        if self.c["dq_rate_estimator"]:
            self.measure(now, packet)
            return packet
        self.delay = now - packet.arrived if self.queue else 0
        if self.last is not None:
            self.burst = max(0, self.burst - (now - self.last))
        self.last = now
        return packet

    def measure(self, now: int, packet: Packet) -> None:
        """Section 4.3; the burst allowance shrinks with each measurement."""
        enough = sum(p.size for p in self.queue) >= 2**14
        if self.count is None and enough:
            self.count, self.last = 0, now
        if self.count is None or self.last is None:
            return
        self.count += packet.size
        if self.count >= 2**14 and now > self.last:
            found = self.count / (now - self.last)
            self.rate = self.rate * 7 / 8 + found / 8 if self.rate else found
            self.burst = max(0, self.burst - (now - self.last))
            self.count, self.last = (0 if enough else None), now


class FqPie(Drr):
    """The scheduler of RFC 8290 with a PIE controller for each flow, and one limit."""

    def __init__(self, config: dict, mtu: int, random: Random) -> None:
        super().__init__(config["quantum_bytes"])
        self.c, self.mtu, self.random = config, mtu, random
        random.u64()  # the hash's perturbation

    def make(self) -> Model:
        whole = self

        class OfAll(Pie):
            def full(self) -> bool:
                return whole.backlog() >= whole.c["limit_packets"]

        pie = OfAll(self.c, self.mtu, self.random)
        pie.mark_below = self.c["ecn_prob"] / 100 if self.c["ecn"] else -1
        return pie

    def enqueue(self, now: int, packet: Packet) -> None:
        flow = self.flow(packet)
        waiting = len(flow.aqm.queue)
        flow.aqm.enqueue(now, packet)
        if len(flow.aqm.queue) > waiting:
            self.activate(flow)


class Dualpi2(Model):
    """RFC 9332 appendix A.1 and A.2: figures 2 to 7, with a credit scheduler and two rolls for the square."""

    def __init__(self, config: dict, mtu: int, random: Random) -> None:
        super().__init__()
        self.c, self.mtu, self.random = config, mtu, random
        self.lq: list[Packet] = []
        self.cq: list[Packet] = []
        self.base = 0.0
        self.prev = 0
        self.updated = 0
        self.credit = 0.0
        self.reset()

    def reset(self) -> None:
        self.credit = self.mtu * (2 * self.c["classic_protection"] - 100)

    def backlog(self) -> int:
        return len(self.lq) + len(self.cq)

    def update(self, now: int) -> None:
        while self.updated + self.c["tupdate_ns"] <= now:
            self.updated += self.c["tupdate_ns"]
            cur = max([self.updated - queue[0].arrived for queue in (self.lq, self.cq) if queue], default=0)
            self.base += self.c["alpha_ppb"] / 1e9 * (cur - self.c["target_ns"]) / 1e9
            self.base += self.c["beta_ppb"] / 1e9 * (cur - self.prev) / 1e9
            most = 1.0 if self.c["drop_on_overload"] else 1 / self.c["coupling_factor"]
            self.base = min(max(self.base, 0.0), most)
            self.prev = cur

    def enqueue(self, now: int, packet: Packet) -> None:
        self.update(now)
        if self.backlog() >= self.c["limit_packets"]:
            self.drop(now, packet, "overlimit")
        elif packet.ecn in ("ect1", "ce"):
            self.lq.append(packet)
        else:
            self.cq.append(packet)

    def roll(self, probability: float) -> bool:
        return (self.random.u64() >> 32) / 2**32 < probability

    def dequeue(self, now: int) -> Packet | None:
        self.update(now)
        while self.lq or self.cq:
            both = bool(self.lq and self.cq)
            low_latency = bool(self.lq) and (not self.cq or self.credit <= 0)
            packet = (self.lq if low_latency else self.cq).pop(0)
            long = sum(p.size for p in self.lq + self.cq) >= 2 * self.mtu
            coupled = self.base * self.c["coupling_factor"]
            overload = coupled > 1
            if long and low_latency:
                if overload and self.c["drop_on_overload"] and self.roll(self.base) and self.roll(self.base):
                    self.drop(now, packet, "aqm")
                    continue
                if overload or self.roll(coupled):
                    self.mark(now, packet)
            elif (
                long
                and self.roll(self.base)
                and self.roll(self.base)
                and (overload or not self.mark(now, packet))
            ):
                self.drop(now, packet, "aqm")
                continue
            if low_latency and packet.ecn != "ce" and now - packet.arrived > self.c["step_thresh_ns"]:
                self.mark(now, packet)
            if both:
                share = self.c["classic_protection"]
                self.credit += (share if low_latency else share - 100) * packet.size
            if not self.lq and not self.cq:
                self.reset()
            return packet
        self.reset()
        return None


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


def run(name: str, model: Model, queue: dict, rate: int, groups: list[tuple]) -> None:
    """Send groups of packets through a link and write the vector.

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
    lines = [f"link {rate} 0 {MTU}", f"queue {json.dumps(queue)}"]
    lines += ["in " + " ".join(map(str, group)) for group in groups]
    lines += model.log
    (Path(__file__).parent.parent / "vectors" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    drops = sum(line.startswith("drop") for line in model.log)
    marks = sum(line.startswith("mark") for line in model.log)
    print(f"{name}: {len(packets)} packets, {drops} drops, {marks} marks")


def codel() -> None:
    """1 ms a packet, offered 2.2, then 0.4, then 2.2 packets per ms; in one case half are ECN-capable."""
    for name, ecn, limit in (("codel", False, 1000), ("codel-ecn", True, 1000), ("codel-limit", False, 60)):
        queue = {
            "kind": "codel",
            "limit_packets": limit,
            "target_ns": 5 * MS,
            "interval_ns": 100 * MS,
            "ecn": ecn,
        }
        groups = [
            (100, 909_091, 500, 1500, 1, 0, 1, "ect0" if ecn else "not-ect"),
            (300, 909_091, 500, 1500, 2, 0, 1, "not-ect"),
            (900 * MS + 7, 2_500_001, 40, 1500, 1, 0, 1, "not-ect"),
            (1500 * MS + 7, 454_547, 700, 1500, 1, 0, 1, "ect0" if ecn else "not-ect"),
        ]
        run(name, Codel(limit, 5 * MS, 100 * MS, ecn, 1500), queue, 12_000_000, groups)


def aqm() -> Random:
    return Random(7, 0, "aqm", "link")


RATE = 12_000_000
"""1500 bytes take 1 ms."""


def red() -> None:
    """1.25 packets per ms for a while, a pause, and again; then all that the limit allows."""
    base = {
        "kind": "red",
        "limit_bytes": 120_000,
        "min_bytes": 15_000,
        "max_bytes": 45_000,
        "avpkt_bytes": 1500,
        "burst_packets": 20,
        "probability_ppb": 100_000_000,
        "bandwidth_bps": RATE,
        "ecn": False,
        "harddrop": False,
        "nodrop": False,
        "adaptive": False,
    }
    groups = [
        (100, 1_600_000, 400, 1500, 1, 0, 1, "ect0"),
        (300, 1_600_000, 400, 1500, 2, 0, 1, "not-ect"),
        (660 * MS, 700_001, 200, 1500, 1, 0, 1, "ect0"),
        (900 * MS, 0, 90, 1500, 1, 0, 1, "not-ect"),
    ]
    for name, change in (
        ("red", {}),
        ("red-ecn", {"ecn": True}),
        ("red-ecn-harddrop", {"ecn": True, "harddrop": True}),
        ("red-ecn-nodrop", {"ecn": True, "nodrop": True}),
        ("red-adaptive", {"adaptive": True}),
    ):
        config = base | change
        run(name, Red(config, aqm()), config, RATE, groups)


def fq_codel() -> None:
    """Two greedy flows, one with small packets, a sparse one, and one that comes back all the time."""
    groups = [
        (100, 600_000, 700, 1500, 1, 0, 1, "not-ect"),
        (200, 700_000, 600, 750, 2, 0, 1, "ect0"),
        (300, 20_000_000, 25, 120, 3, 0, 1, "not-ect"),
        (50 * MS + 7, 1_300_000, 150, 300, 4, 0, 1, "not-ect"),
    ]
    for name, limit in (("fq_codel", 10_240), ("fq_codel-limit", 150)):
        config = {
            "kind": "fq_codel",
            "limit_packets": limit,
            "flows": 1024,
            "quantum_bytes": 1500,
            "target_ns": 5 * MS,
            "interval_ns": 100 * MS,
            "ecn": True,
            "ce_threshold_ns": None,
            "memory_limit_bytes": 32 << 20,
            "drop_batch": 64,
        }
        run(name, FqCodel(config, 1500), config, RATE, groups)


def pie() -> None:
    """1.25 packets per ms, then a pause, then twice what the link carries: beyond 250 ms in one case."""
    base = {
        "kind": "pie",
        "limit_packets": 1000,
        "target_ns": 15 * MS,
        "tupdate_ns": 15 * MS,
        "alpha": 2,
        "beta": 20,
        "ecn": False,
        "bytemode": False,
        "dq_rate_estimator": False,
    }
    groups = [
        (100, 1_600_000, 500, 1500, 1, 0, 1, "ect0"),
        (300, 1_600_000, 500, 1500, 2, 0, 1, "not-ect"),
        (1500 * MS, 500_001, 800, 1500, 1, 0, 1, "ect0"),
    ]
    slow = {"alpha": 1, "beta": 1, "tupdate_ns": 30 * MS}
    for name, change in (
        ("pie", {}),
        ("pie-ecn", {"ecn": True}),
        ("pie-bytemode", {"bytemode": True}),
        ("pie-limit", {"limit_packets": 40}),
        ("pie-slow", slow),
        ("pie-rate", {"dq_rate_estimator": True}),
    ):
        config = base | change
        sizes = [(*g[:3], 600, *g[4:]) if g[4] == 2 and name == "pie-bytemode" else g for g in groups]
        run(name, Pie(config, 1500, aqm()), config, RATE, sizes)


def fq_pie() -> None:
    config = {
        "kind": "fq_pie",
        "limit_packets": 200,
        "flows": 1024,
        "target_ns": 15 * MS,
        "tupdate_ns": 15 * MS,
        "alpha": 2,
        "beta": 20,
        "quantum_bytes": 1500,
        "memory_limit_bytes": 32 << 20,
        "ecn_prob": 10,
        "ecn": True,
        "bytemode": False,
        "dq_rate_estimator": False,
    }
    groups = [
        (100, 1_200_000, 600, 1500, 1, 0, 1, "not-ect"),
        (200, 900_000, 800, 750, 2, 0, 1, "ect0"),
        (300, 20_000_000, 25, 120, 3, 0, 1, "not-ect"),
        (50 * MS + 7, 1_300_000, 150, 300, 4, 0, 1, "not-ect"),
    ]
    for name, change in (("fq_pie", {}), ("fq_pie-rate", {"dq_rate_estimator": True})):
        run(name, FqPie(config | change, 1500, aqm()), config | change, RATE, groups)


def dualpi2() -> None:
    """A classic and an L4S flow, each at 0.7 of the rate; then the latter alone at 3 times: overload."""
    base = {
        "kind": "dualpi2",
        "limit_packets": 10_000,
        "target_ns": 15 * MS,
        "tupdate_ns": 16 * MS,
        "alpha_ppb": 160_000_000,
        "beta_ppb": 3_200_000_000,
        "coupling_factor": 2,
        "step_thresh_ns": 1 * MS,
        "classic_protection": 10,
        "drop_on_overload": True,
    }
    groups = [
        (100, 1_430_000, 400, 1500, 1, 0, 1, "not-ect"),
        (200, 1_430_000, 400, 1500, 2, 0, 1, "ect1"),
        (250, 14_300_000, 40, 1500, 3, 0, 1, "ect0"),
        (900 * MS, 333_331, 1200, 1500, 2, 0, 1, "ect1"),
    ]
    for name, change in (
        ("dualpi2", {}),
        ("dualpi2-overflow", {"drop_on_overload": False, "limit_packets": 120}),
        ("dualpi2-wide-step", {"step_thresh_ns": 100 * MS, "classic_protection": 50}),
    ):
        config = base | change
        run(name, Dualpi2(config, 1500, aqm()), config, RATE, groups)


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


if __name__ == "__main__":
    for write in (codel, red, fq_codel, pie, fq_pie, cake, dualpi2):
        write()
