"""What sends and receives on live hosts: common tools where they fit, otherwise a sender of our own.

`agent` runs at each host and carries out the ends of flows that are there: `tools` says how iperf3 and iperf
are called, `apps` is our own sender and receiver, after the application models of the simulator.
"""
