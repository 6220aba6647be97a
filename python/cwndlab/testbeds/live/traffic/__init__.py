"""The senders and receivers on live hosts: common tools where they fit, otherwise cwndlab's own.

`agent` runs at each host and carries out the ends of flows that are there, with the applications that the
simulator has (crates/apps); `tools` says how iperf3 and iperf are called, `load` what loadlatency is told.
"""
