"""Experiment files: read, checked against the schema, with the axes of their sweep.

`cwndlab.load` reads one for a testbed and checks all of it; `scenario` makes its plan. Everything a
user can get wrong raises `cwndlab.errors.ExperimentError`, whose text is one line.
"""
