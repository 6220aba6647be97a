"""Additive increase, multiplicative decrease: cwndlab run FILE --cc aimd=aimd.py:Aimd"""


class Aimd:
    """One object for each connection; `flow` is in bytes and seconds."""

    def on_ack(self, flow):
        """Data is acknowledged, nothing is being repaired, and the window is what limits."""
        if flow.cwnd < flow.ssthresh:
            flow.cwnd += flow.acked
        else:
            flow.cwnd += flow.mss * flow.acked / flow.cwnd

    def on_loss(self, flow):
        """Say what a loss leaves of the window; also what on_rto and on_ecn do unless they are there."""
        flow.cwnd = max(flow.cwnd / 2, 2 * flow.mss)
