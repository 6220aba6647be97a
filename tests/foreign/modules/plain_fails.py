"""Controllers that fail, each in its own way."""

import contextlib
import os
import signal
import threading
import time
from typing import ClassVar


class Aimd:
    """Fails at an ACK after half a second."""

    def on_ack(self, flow):
        if flow.now > 0.5:
            self.fail(flow)
        flow.cwnd += flow.acked if flow.cwnd < flow.ssthresh else flow.mss * flow.acked / flow.cwnd

    def on_loss(self, flow):
        flow.cwnd = max(flow.cwnd / 2, 2 * flow.mss)

    def fail(self, flow):
        """Do not."""


class Raises(Aimd):
    def fail(self, flow):
        raise KeyError("of\nnothing")


class Loops(Aimd):
    def fail(self, flow):
        while True:
            with contextlib.suppress(Exception):
                flow.cwnd += 0


class Nothing(Aimd):
    def fail(self, flow):
        flow.acked and setattr(flow, "ssthresh", float("nan"))


class Negative(Aimd):
    def on_loss(self, flow):
        flow.cwnd = -1


class Word(Aimd):
    def fail(self, flow):
        flow.cwnd = "many"


class Dies(Aimd):
    def fail(self, flow):
        os.kill(os.getpid(), signal.SIGKILL)


class Events(Aimd):
    """Stops at a timeout and at a mark."""

    def on_rto(self, flow):
        assert flow.ssthresh > 0
        raise RuntimeError(f"timeout with {flow.mss:.0f} {flow.srtt > 0} {flow.min_rtt > 0}")

    def on_ecn(self, flow):
        raise RuntimeError("a mark")


class Statics(Aimd):
    """Stops at the third connection that a host's copy has seen."""

    made: ClassVar[list] = []

    def __init__(self):
        self.made.append(self)
        assert len(self.made) < 3, "three"


class Incomplete:
    def on_ack(self, flow):
        pass


class Sleeps(Aimd):
    def fail(self, flow):
        time.sleep(1000)


class Forks(Aimd):
    def fail(self, flow):
        os.fork()


class Closes(Aimd):
    def fail(self, flow):
        os.closerange(3, 1024)


class Prints(Aimd):
    def fail(self, flow):
        print("what a method says")


class Threads(Aimd):
    def fail(self, flow):
        threading.Thread(target=time.sleep, args=(1000,)).start()
