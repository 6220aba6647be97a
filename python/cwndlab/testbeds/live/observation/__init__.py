"""Live hosts as they are seen: samples of sockets, and settings before and after a run."""
