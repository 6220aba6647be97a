"""What sends and receives on real testbeds: common tools where they fit, otherwise a sender of our own.

`agent` runs in each host's namespace and carries out the ends of flows that are there: `tools` says how
iperf3 and iperf are called, `apps` is our own sender and receiver, after the application models of the
simulator.
"""
