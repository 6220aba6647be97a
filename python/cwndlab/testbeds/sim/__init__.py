"""The simulator: models of TCP stacks over a modelled path, in virtual time."""

NAME = "sim"
"""The word for `--testbed`."""
