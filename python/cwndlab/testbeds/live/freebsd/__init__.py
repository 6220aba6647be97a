"""Hosts and routers that run FreeBSD."""
