"""The executor that is this process: one task after the other, in the order they were handed in."""

import time

from cwndlab.errors import CwndlabError
from cwndlab.execution.executor import Arrivals
from cwndlab.execution.task import PartControl, Task, carry_out_part


class Here:
    """Carries tasks out by itself; runs that take real time have their pause in between."""

    places = 1

    def __init__(self, arrivals: Arrivals) -> None:
        """Report to `arrivals`."""
        self._arrivals = arrivals
        self._waiting: list[Task] = []

    def submit(self, task: Task) -> None:
        """Take a task; it begins in `wait`."""
        self._waiting.append(task)

    def wait(self) -> None:
        """Carry out what was handed in."""
        site = self._arrivals.site
        bed = site.find()
        control = PartControl(
            lambda: False, self._arrivals.advance, site.work, self._arrivals.observer.waiting
        )
        parts = [part for task in self._waiting for part in task.parts]
        try:
            for place, part in enumerate(parts):
                if place and site.sequence is not None:
                    time.sleep(site.sequence.pause_ns / 1e9)
                carry_out_part(part, bed, site, control)
        except OSError as error:
            raise CwndlabError(f"{error.filename or site.runs}: {error.strerror or error}") from None

    def cancel(self) -> None:
        """Do nothing, as no run is at work: what ended `wait` ended its part."""
