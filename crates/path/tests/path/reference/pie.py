"""PIE, FQ-PIE and DualPI2."""

from model import MS, RATE, Drr, Model, Packet, Random, aqm, run, timer_period, truesize


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
        period = timer_period(self.c["tupdate_ns"])
        while self.updated + period <= now:
            self.updated += period
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
        self.outside_step: set[int] = set()
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
        memory = sum(map(truesize, [*self.lq, *self.cq, packet]))
        low_latency = packet.ecn in ("ect1", "ce") or (self.c["any_ect"] and packet.ecn == "ect0")
        if self.backlog() >= self.c["limit_packets"] or memory > self.c["memlimit_bytes"]:
            self.drop(now, packet, "overlimit")
        elif self.c["drop_enqueue"] and self.decide(now, packet, low_latency=low_latency):
            self.drop(now, packet, "aqm")
        elif low_latency:
            if len(self.lq) < self.c["min_qlen_step_packets"]:
                self.outside_step.add(packet.number)
            self.lq.append(packet)
        else:
            self.cq.append(packet)

    def decide(self, now: int, packet: Packet, *, low_latency: bool) -> bool:
        """Mark a packet or not, and tell whether it is to be dropped."""
        if sum(p.size for p in self.lq + self.cq) < 2 * self.mtu:
            return False
        coupled = self.base * self.c["coupling_factor"]
        overload = coupled > 1
        if not low_latency:
            hit = self.roll(self.base) and self.roll(self.base)
            return hit and (overload or not self.mark(now, packet))
        if overload and self.c["drop_on_overload"] and self.roll(self.base) and self.roll(self.base):
            return True
        if overload or self.roll(coupled):
            self.mark(now, packet)
        return False

    def beyond_step(self, now: int, packet: Packet) -> bool:
        if packet.number in self.outside_step:
            return False
        if self.c["step_packets"] is not None:
            return len(self.lq) > self.c["step_packets"]
        return now - packet.arrived > self.c["step_thresh_ns"]

    def roll(self, probability: float) -> bool:
        return (self.random.u64() >> 32) / 2**32 < probability

    def dequeue(self, now: int) -> Packet | None:
        self.update(now)
        while self.lq or self.cq:
            both = bool(self.lq and self.cq)
            low_latency = bool(self.lq) and (not self.cq or self.credit <= 0)
            packet = (self.lq if low_latency else self.cq).pop(0)
            if not self.c["drop_enqueue"] and self.decide(now, packet, low_latency=low_latency):
                self.drop(now, packet, "aqm")
                continue
            if low_latency and packet.ecn != "ce" and self.beyond_step(now, packet):
                self.mark(now, packet)
            if both:
                share = self.c["classic_protection"]
                self.credit += (share if low_latency else share - 100) * packet.size
            if not self.lq and not self.cq:
                self.reset()
            return packet
        self.reset()
        return None


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
        "memlimit_bytes": 1 << 25,
        "step_thresh_ns": 1 * MS,
        "step_packets": None,
        "min_qlen_step_packets": 0,
        "classic_protection": 10,
        "drop_on_overload": True,
        "drop_enqueue": False,
        "any_ect": False,
        "split_gso": True,
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
        ("dualpi2-packets", {"step_packets": 5, "min_qlen_step_packets": 3, "memlimit_bytes": 60_000}),
        ("dualpi2-enqueue", {"drop_enqueue": True, "any_ect": True, "step_thresh_ns": 20 * MS}),
    ):
        config = base | change
        run(name, Dualpi2(config, 1500, aqm()), config, RATE, groups)
