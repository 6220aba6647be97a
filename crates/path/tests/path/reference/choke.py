"""CHOKe."""

from model import MS, RATE, Model, Packet, Random, aqm, run


class Choke(Model):
    """Pan, Prabhakar and Psounis, "CHOKe", 2000, with the average and the spacing of RED's paper, in packets.

    As in Linux, a packet that was dropped leaves a gap behind, three gaps in a row stand for the oldest
    packet, and the number of packets until the next drop is a whole one.
    """

    def __init__(self, config: dict, random: Random) -> None:
        super().__init__()
        self.c, self.random = config, random
        self.gapped: list[Packet | None] = []
        self.w = 0.5
        burst = config["burst_packets"]
        while burst + 1 - config["min_packets"] > (1 - (1 - self.w) ** burst) / self.w:
            self.w /= 2
        self.scaled = 0
        self.idle: int | None = 0
        self.count = -1
        self.gap = 0

    def backlog(self) -> int:
        return sum(packet is not None for packet in self.gapped)

    def draw(self) -> int:
        return self.random.u64() >> 32

    def average(self, now: int) -> None:
        if self.idle is None:
            self.scaled += self.backlog() - int(self.scaled * self.w)
            return
        packet_time = self.c["avpkt_bytes"] * 8e9 / self.c["bandwidth_bps"]
        self.scaled = int(self.scaled * (1 - self.w) ** ((now - self.idle) // packet_time))
        self.idle = None

    def victim(self) -> Packet | None:
        if not self.gapped:
            return None
        for _ in range(3):
            packet = self.gapped[self.draw() * len(self.gapped) >> 32]
            if packet is not None:
                return packet
        return self.gapped[0]

    def remove(self, packet: Packet) -> None:
        self.gapped[self.gapped.index(packet)] = None
        while self.gapped and self.gapped[0] is None:
            self.gapped.pop(0)

    def congested(self, now: int, packet: Packet) -> bool:
        """Tell whether a packet is dropped, and drop the one of its flow that it found."""
        low, high = self.c["min_packets"], self.c["max_packets"]
        if self.scaled * self.w <= low:
            self.count = -1
            return False
        victim = self.victim()
        if victim is not None and victim.flow == packet.flow:
            self.remove(victim)
            self.drop(now, victim, "aqm")
            return True
        if self.scaled * self.w > high:
            self.count = -1
        else:
            self.count += 1
            above = int(self.scaled * self.w - low)
            early = self.count > 0 and self.count * above >= self.gap
            if early:
                self.count = 0
            if self.count == 0:
                slope = round(int(self.c["probability_ppb"] * 2**32 / 10**9) / (high - low))
                self.gap = self.draw() // slope
            if not early:
                return False
        return not (self.c["ecn"] and self.mark(now, packet))

    def enqueue(self, now: int, packet: Packet) -> None:
        self.average(now)
        if self.congested(now, packet):
            self.drop(now, packet, "aqm")
        elif self.backlog() >= self.c["limit_packets"]:
            self.drop(now, packet, "overlimit")
        else:
            self.gapped.append(packet)
        if not self.gapped:
            self.idle = now

    def dequeue(self, now: int) -> Packet | None:
        packet = self.gapped[0]
        assert packet is not None
        self.remove(packet)
        if not self.gapped:
            self.idle = now
        return packet


def choke() -> None:
    """Two flows at 0.6 of the rate together, twenty others at 0.8; then a burst of one."""
    base = {
        "kind": "choke",
        "limit_packets": 100,
        "min_packets": 5,
        "max_packets": 15,
        "avpkt_bytes": 1500,
        "burst_packets": 8,
        "probability_ppb": 50_000_000,
        "bandwidth_bps": RATE,
        "ecn": False,
    }
    groups = [
        (100, 2_500_000, 400, 1500, 1, 0, 1, "ect0"),
        (300, 2_500_000, 400, 750, 2, 0, 1, "not-ect"),
        *((50 * MS + i, 25_000_000, 40, 1500, 10 + i, 0, 1, "ect0") for i in range(20)),
        (1900 * MS, 0, 50, 1500, 4, 0, 1, "not-ect"),
    ]
    for name, change in (("choke", {}), ("choke-ecn", {"ecn": True}), ("choke-full", {"limit_packets": 20})):
        config = base | change
        run(name, Choke(config, aqm()), config, RATE, groups)
