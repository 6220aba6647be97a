"""How long tests wait for what a sound program does soon."""

PATIENCE = 300
"""Seconds until a test takes a program to hang. No result is judged by it: a busy machine takes its time."""
