"""Machines as they are seen during a run: samples of sockets, captures, counters."""
