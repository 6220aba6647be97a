"""Checks of a lab and of what is asked of it, before anything starts."""
