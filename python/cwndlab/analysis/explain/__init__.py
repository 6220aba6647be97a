"""Explanation of one connection by its capture or log: limiter, path, fits, and what a change would give."""
