"""CoDel and FQ-CoDel."""

from model import MS, RATE, Drr, Model, Packet, run


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


def fq_codel() -> None:
    """Two greedy flows, one with small packets, a sparse one, and one that comes back all the time."""
    groups = [
        (100, 600_000, 700, 1500, 1, 0, 1, "not-ect"),
        (200, 700_000, 600, 750, 2, 0, 1, "ect0"),
        (300, 20_000_000, 25, 120, 3, 0, 1, "not-ect"),
        (50 * MS + 7, 1_300_000, 150, 300, 4, 0, 1, "not-ect"),
    ]
    for case, limit, quantum in (("", 10_240, 1500), ("-limit", 150, 1500), ("-quantum", 10_240, 7)):
        config = {
            "kind": "fq_codel",
            "limit_packets": limit,
            "flows": 1024,
            "quantum_bytes": quantum,
            "target_ns": 5 * MS,
            "interval_ns": 100 * MS,
            "ecn": True,
            "ce_threshold_ns": None,
            "ce_threshold_selector": 0,
            "ce_threshold_mask": 0,
            "memory_limit_bytes": 32 << 20,
            "drop_batch": 64,
        }
        run(f"fq_codel{case}", FqCodel(config, 1500), config, RATE, groups)
