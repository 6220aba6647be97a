"""Testbed ssh: machines of one's own, reached over SSH."""
