"""TEACUP's configurations and results, logs of Web10G, ttprobe and tcp_probe, and graphs for xplot."""
