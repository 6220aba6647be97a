"""Experiment files: read, checked, crossed into a plan, and resolved to Scenarios.

What the rest of cwndlab uses::

    experiment = load("x.yaml", overrides=["duration=10s"], testbed="sim")
    experiment.name                    # "newreno-versus-cubic"
    experiment.source                  # the file's text, as read
    experiment.as_yaml()               # the same with overrides applied and defaults written out
    experiment.run(jobs=2)             # carried out: a ResultSet
    plan = experiment.plan()           # every cell checked; ExperimentError names file, line and key
    plan.keys                          # swept keys, in order: columns of the summary
    for run in plan.runs:
        run.index, run.repeat          # run_id of the tables; 0-based repeat
        run.cell                       # {"hosts.a.cc": "cubic"}: swept keys with their values as text
        run.scenario                   # dict, what the engine takes as JSON, no default left
        run.scenario_hash              # 16 hex digits of a hash of the Scenario, for resuming
        run.notes                      # what resolving decided, such as the packets a limit of 2bdp came to

Everything a user can get wrong raises `cwndlab.errors.ExperimentError`, whose text is one line.
"""

from cwndlab.experiment.experiment import Experiment, load
from cwndlab.experiment.plan import Plan, PlannedRun

__all__ = ["Experiment", "Plan", "PlannedRun", "load"]
