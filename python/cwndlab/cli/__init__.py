"""The command line, a file for each group of commands."""

from cwndlab.cli.application import app, main

__all__ = ["app", "main"]
