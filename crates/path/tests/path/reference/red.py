"""RED."""

from model import MS, RATE, Model, Packet, Random, aqm, run, timer_period


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

    def curve(self, part: float) -> float:
        """Zhou, Yeung, Li, "Nonlinear RED", 2006, section 3.1."""
        return 1.5 * part * part if self.c["nonlinear"] else part

    def adapt(self, now: int) -> None:
        """Floyd, Gummadi, Shenker 2001, section 4: every 0.5 s, alpha 0.01 or a quarter, beta 0.9."""
        low, high = self.c["min_bytes"], self.c["max_bytes"]
        period = timer_period(500 * MS)
        while self.c["adaptive"] and self.adapted + period <= now:
            self.adapted += period
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
            if self.count > 0 and self.count * self.max_p * self.curve((avg - low) / (high - low)) >= self.u:
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
        "nonlinear": False,
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
        ("red-nonlinear", {"nonlinear": True, "ecn": True, "min_bytes": 5_000}),
    ):
        config = base | change
        run(name, Red(config, aqm()), config, RATE, groups)
