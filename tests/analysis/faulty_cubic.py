"""CUBIC (RFC 9438) as a plain class, and classes with one fault each."""


class Cubic:
    """CUBIC as RFC 9438 has it, without HyStart."""

    C, BETA = 0.4, 0.7
    GROWTH = 1.0
    FACTORS = (0.7,)
    """Factors that a loss multiplies the window by, one after the other."""

    def __init__(self):
        self.start = None
        self.w_max = 0.0
        self.ours = 0.0

    def on_ack(self, flow):
        if flow.cwnd < flow.ssthresh:
            flow.cwnd += flow.acked
            return
        window = flow.cwnd / flow.mss
        if self.start is None:
            self.start = flow.now
            self.w_max = max(self.w_max, window)
            self.k = ((self.w_max - window) / self.C) ** (1 / 3)
            self.w_est = self.ours = window
        t = flow.now - self.start + flow.min_rtt
        # The RFC has 1 once W_max is reached, which Linux has not.
        alpha = 3 * (1 - self.BETA) / (1 + self.BETA)
        self.w_est += alpha * flow.acked / flow.cwnd
        target = min(max(self.C * (t - self.k) ** 3 + self.w_max, self.ours), 1.5 * self.ours)
        self.ours = max(self.ours + (target - self.ours) * flow.acked / flow.cwnd, self.w_est)
        began = self.w_max - self.C * self.k**3
        flow.cwnd = (began + self.GROWTH * (self.ours - began)) * flow.mss

    def on_loss(self, flow):
        # In whole packets, as whether fast convergence acts may hang on a rounding.
        window = int(flow.cwnd / flow.mss)
        self.w_max = window * (1 + self.BETA) / 2 if window < self.w_max else window
        self.start = None
        for factor in self.FACTORS:
            flow.cwnd = max(flow.cwnd * factor, 2 * flow.mss)
        flow.ssthresh = flow.cwnd


class NewReno:
    """NewReno (RFC 5681), that grows by so many packets in a round trip."""

    GROWTH = 1.0

    def on_ack(self, flow):
        if flow.cwnd < flow.ssthresh:
            flow.cwnd += flow.acked
        else:
            flow.cwnd += self.GROWTH * flow.mss * flow.acked / flow.cwnd

    def on_loss(self, flow):
        flow.cwnd = flow.ssthresh = max(flow.cwnd / 2, 2 * flow.mss)


class NewRenoWithTwiceTheGrowth(NewReno):
    """Congestion avoidance grows by two packets in a round trip."""

    GROWTH = 2.0


class FastConvergenceOfTheWindow(Cubic):
    """Fast convergence also cuts the window: 0.595 is left of it."""

    FACTORS = (0.7, 0.85)


class TwoReductions(Cubic):
    """Each loss reduces twice: 0.49 is left."""

    FACTORS = (0.7, 0.7)


class Pinned(Cubic):
    """The window is its minimum after the first loss, for good."""

    def on_ack(self, flow):
        if flow.cwnd < flow.ssthresh:
            flow.cwnd += flow.acked

    def on_loss(self, flow):
        flow.cwnd = flow.ssthresh = 2 * flow.mss


class SlowStartOfTwiceTheBytes(Cubic):
    """Slow start adds twice what is acknowledged."""

    def on_ack(self, flow):
        super().on_ack(flow)
        if flow.cwnd < flow.ssthresh:
            flow.cwnd += flow.acked


class NoSlowStart(Cubic):
    """The threshold is the window from the beginning on."""

    def on_ack(self, flow):
        flow.cwnd += flow.mss * flow.acked / flow.cwnd


class NoGrowth(Cubic):
    """Congestion avoidance leaves the window as it is."""

    def on_ack(self, flow):
        if flow.cwnd < flow.ssthresh:
            flow.cwnd += flow.acked


class TwiceTheGrowth(Cubic):
    """Congestion avoidance grows twice as fast."""

    GROWTH = 2.0
