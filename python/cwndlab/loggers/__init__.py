"""What runs beside the traffic of real testbeds and writes down what happens, all on one clock."""

LOGGERS = ("tcp_info", "queue", "pcap", "iperf3", "ping")
"""Those of testbed netns, in the words of the experiment file."""
