"""Testbed netns: network namespaces of this machine."""
