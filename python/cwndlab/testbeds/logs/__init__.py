"""The readers of the kernels' logs of connections: SIFTR, siftr2, `ss`."""
