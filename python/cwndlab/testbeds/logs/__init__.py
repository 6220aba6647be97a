"""What the kernels' loggers write of connections, read: SIFTR, siftr2, `ss`."""
