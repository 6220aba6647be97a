"""The counterfactual: the connection in the model as it was, and with the one key changed that limited it.

Nothing is said where the modelled connection does not carry about what the observed one did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cwndlab.analysis.advice import buffers
from cwndlab.analysis.explain import limiters, model
from cwndlab.analysis.explain.evidence import Connection
from cwndlab.analysis.explain.limiters import Timeline
from cwndlab.analysis.explain.model import Outcome, Setup
from cwndlab.analysis.explain.path import Path
from cwndlab.experiment.catalogue import Stack, catalogue

NEAR = 0.1
"""Share by which the modelled goodput may be off the observed one."""

SEARCHED = 8
"""Buffers that are tried for the one that carries what was observed: systems differ in what a buffer of a
size lets be in flight."""

LEAST_SIZE = 4608
"""Least buffer that is tried: the least send buffer of Linux, bytes."""

BUFFERS = (0.5, 2.0)
"""Buffers of the bottleneck for which the change is tried, too, where no loss shows its own."""


@dataclass(frozen=True)
class Change:
    """A change of the experiment, and what it gave."""

    words: str
    """Name and value of what is to be set, for a reader."""
    cells: Mapping[str, str]
    """Keys of the experiment and their values."""
    after: Outcome
    range_bps: tuple[float, float]
    """Goodput over the sizes of the bottleneck's buffer that were tried."""


@dataclass(frozen=True)
class Counterfactual:
    """Simulation before and after."""

    setup: Setup
    before: Outcome | None
    observed_bps: float
    changes: Sequence[Change]
    refused: str
    """Reason why there is none; empty where there is one."""

    @property
    def off(self) -> float | None:
        """Share by which the model is off before the change."""
        return self.before.goodput_bps / self.observed_bps - 1 if self.before and self.observed_bps else None


def of(found: Connection, path: Path, line: Timeline, stack: str, cc: str) -> Counterfactual | str:
    """Simulate a connection before and after the change that its limiter asks for; a reason why not."""
    setup = model.setup(found, path, stack, cc)
    reason = _refusal(found, path, line)
    if setup is None or reason:
        return reason
    setup = replace(setup, changes={**model.as_large(found, stack, stack), **model.before(found, line)})
    setup, before = _as_it_was(found, line, setup)
    observed = found.goodput_bps or 1.0
    off = before.goodput_bps / observed - 1
    if abs(off) > NEAR:
        said = (
            f"the model carries {before.goodput_bps / 1e6:.4g} Mbit/s before the change,"
            f" the observed connection {observed / 1e6:.4g}"
        )
        return Counterfactual(setup, before, observed, (), said)
    # What is lost behind a change are other packets, so many of them.
    setup = replace(setup, lost=())
    wanted = _wanted(path, line, setup)
    known = path.buffer_full or (path.buffer_bytes is not None and line.main() == "path")
    changes = []
    for words, cells in wanted:
        setups = [setup] if known else [setup, *(_with_buffer(setup, path, share) for share in BUFFERS)]
        outcomes = [model.run(_changed(each, cells)) for each in setups]
        goodputs = [each.goodput_bps for each in outcomes]
        changes.append(Change(words, cells, outcomes[0], (min(goodputs), max(goodputs))))
        further = _other_side(line, setup, outcomes[0])
        if further is not None and len(wanted) == 1:
            wanted.append((f"{words} and {further[0]}", {**cells, **further[1]}))
    return Counterfactual(setup, before, observed, changes, "")


def _refusal(found: Connection, path: Path, line: Timeline) -> str:
    """Reason why there is nothing to simulate; empty where there is something."""
    reasons = (
        (path.rate_bps is None, "the bottleneck's rate is not known"),
        (path.rtt_s is None, "the round trip is not known"),
        (not found.goodput_bps, "the file does not tell what was delivered"),
        (path.policed, "a policer drops what exceeds its rate: nothing on the hosts gives more"),
        (line.main() == "unknown", "the limiter is not known"),
        (
            line.detail() == limiters.SLOW_START,
            "it was in slow start for most of the time, which length alone ends",
        ),
    )
    return next((words for holds, words in reasons if holds), "")


def _changed(setup: Setup, cells: Mapping[str, str]) -> Setup:
    """The setup with keys changed."""
    return replace(setup, changes={**setup.changes, **cells})


def _with_buffer(setup: Setup, path: Path, share: float) -> Setup:
    packets = max(round(share * (path.bdp_bytes or 0.0) / model.PACKET), model.LEAST_BUFFER)
    return replace(setup, buffer_packets=packets)


def _as_it_was(found: Connection, line: Timeline, setup: Setup) -> tuple[Setup, Outcome]:
    """The model of the connection as it was; of buffers the one that carries what was observed."""
    key = {"sndbuf": "hosts.a.sndbuf", "rwnd": "hosts.b.rcvbuf"}.get(line.main())
    size = model.held(line)
    if key is None or size is None:
        return setup, model.run(setup)
    observed = found.goodput_bps or 1.0
    low, high = LEAST_SIZE, max(2 * size, 2 * LEAST_SIZE)
    best: tuple[Setup, Outcome] | None = None
    for _ in range(SEARCHED):
        size = round((low * high) ** 0.5)
        made = replace(setup, changes={**setup.changes, key: f"{size}B"})
        tried = made, model.run(made)
        if best is None or _off(tried, observed) < _off(best, observed):
            best = tried
        low, high = (size, high) if tried[1].goodput_bps < observed else (low, size)
    return best or (setup, model.run(setup))


def _off(tried: tuple[Setup, Outcome], observed: float) -> float:
    return abs(tried[1].goodput_bps / observed - 1)


def _raised(stack: Stack, setup: Setup, *, receive: bool) -> tuple[str, dict[str, str]]:
    """A buffer left to autotuning, whose limit lets it hold twice what is on the way and what waits."""
    side, key = ("b", "rcvbuf") if receive else ("a", "sndbuf")
    need = 2 * (setup.rate_bps * setup.rtt_ns / 8e9 + setup.buffer_packets * model.PACKET)
    sysctls = buffers.raised(stack, round(need), receive=receive) if stack.family in model.RAISED else {}
    name = ", ".join(f"{each} {value >> 20} MiB" for each, value in sysctls.items())
    cells = {f"hosts.{side}.sysctl.{each}": str(value) for each, value in sysctls.items()}
    return f"`{name}`" if name else f"`{key}: auto`", {f"hosts.{side}.{key}": "auto", **cells}


def _other_side(line: Timeline, setup: Setup, after: Outcome) -> tuple[str, dict[str, str]] | None:
    """The other end's buffer, where that limits once the first one is raised."""
    other = {"sndbuf": "rwnd", "rwnd": "sndbuf"}.get(line.main())
    stack = catalogue().stack(setup.stack)
    if other is None or stack is None or after.limited_by != other:
        return None
    words, cells = _raised(stack, setup, receive=other == "rwnd")
    return None if len(cells) == 1 else (words, cells)


def _wanted(path: Path, line: Timeline, setup: Setup) -> list[tuple[str, dict[str, str]]]:
    """The changes to try, each in words and as keys."""
    main, detail = line.main(), line.detail()
    stack = catalogue().stack(setup.stack)
    if stack is None:
        return []
    if main in ("rwnd", "sndbuf"):
        return [_raised(stack, setup, receive=main == "rwnd")]
    if main == "app":
        return [("an application that always has data", {"flows.f1.app": "bulk"})]
    found = []
    others = [name for name in ("bbr", "cubic") if name in stack.cc and name != setup.cc]
    if detail == limiters.LINK:
        found.append(("`queue: fq_codel`", {"network.dumbbell.bottleneck.queue": "fq_codel"}))
    else:
        whole = max(round((path.bdp_bytes or 0) / model.PACKET), model.LEAST_BUFFER)
        if path.buffer_full and setup.buffer_packets < 0.9 * whole:
            found.append(
                (
                    f"a bottleneck queue of {whole} packets",
                    {"network.dumbbell.bottleneck.queue.limit": f"{whole}p"},
                )
            )
    if others:
        found.append((f"`cc: {others[0]}`", {"hosts.a.cc": others[0]}))
    return found
