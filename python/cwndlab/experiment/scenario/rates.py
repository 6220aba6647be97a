"""Sizes of the writes of applications with a rate of their own, so that they keep it."""

from cwndlab.experiment import units
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.scenario.graph import BIT_NS
from cwndlab.experiment.schema import AnyApp
from cwndlab.experiment.units import BadValue

BLOCK_NS = 100_000_000
"""Time, in ns, in which the rate sends the largest write, unless the experiment sets that."""


def write_bytes(app: AnyApp, rate: int, default: int, path: Path) -> int:
    """Return the bytes of one write of an application with a `rate` in bit/s.

    Where the file gives no size, it is `default`, or at low rates what the rate sends in `BLOCK_NS`, and of
    on-off at most what one on-period may send. Raises `Misplaced`, at the flow's `path`, for a larger one.
    """
    given: int | None = app.given("write")
    write = given or max(1, min(default, rate * BLOCK_NS // BIT_NS))
    if app.kind != "on-off":
        return write
    most: int = rate * app.given("on") // BIT_NS
    on, at_rate = units.format_time(app.given("on")), units.format_rate(rate)
    if most == 0:
        expected = f"at least {units.format_time(-(-BIT_NS // rate))}, in which {at_rate} sends a byte"
        raise Misplaced((*path, "app"), BadValue(on, expected, key="on"))
    if given is not None and write > most:
        expected = f"at most {units.format_size(most)}, which is what {on} at {at_rate} may send"
        raise Misplaced((*path, "app"), BadValue(units.format_size(write), expected, key="write"))
    return min(write, most)
