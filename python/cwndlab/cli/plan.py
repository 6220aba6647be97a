"""`cwndlab check`: what an experiment is, before it is run."""

import typer

from cwndlab.cli import kernel as kernels
from cwndlab.cli.options import Experiment, Guests, Jobs, Lab, Modules, Overrides, Testbed
from cwndlab.cli.output import progress
from cwndlab.cli.run import place


def check(
    experiment: Experiment,
    *,
    testbed: Testbed = None,
    lab: Lab = None,
    kernel: kernels.Chosen = None,
    overrides: Overrides = None,
    jobs: Jobs = None,
    cc: Modules = None,
    guest: Guests = None,
) -> None:
    """Check an experiment and draw its plan; nothing is run.

    Prints the network, BDP and buffers, which flow crosses which queue, how many runs there are, what they
    take, and notes on what is surely not meant. The exit code is 2 only if the file is refused.
    """
    from cwndlab.cli import overview
    from cwndlab.execution import run_order, runner
    from cwndlab.report import interface

    testbed, lab = kernels.place(kernel, None, testbed, lab, quiet=True)
    where = place(testbed, lab)
    loaded = interface.load(
        experiment, overrides or (), where.testbed, lab=lab, cc=cc or (), guest=guest or ()
    )
    with progress(quiet=False) as observer:
        plan = runner.check(loaded, where.testbed, observer, where.lab)
    pause = run_order.pause_ns(loaded.spec) if where.facts.takes_real_time else None
    typer.echo(overview.as_text(plan, where.workers if jobs is None else jobs, pause))
