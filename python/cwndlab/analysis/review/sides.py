"""The sides of a review: what OLD and NEW name, compiled, or two kernels, and the stack that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cwndlab import testbeds
from cwndlab.analysis.review import patches
from cwndlab.errors import InputError, one_of, unknown
from cwndlab.experiment.catalogue import Catalogue, Stack
from cwndlab.foreign import Module, compilation, sources
from cwndlab.testbeds import loader

BUILT_IN = "builtin:"
"""Prefix of the name of a congestion control of the engine's own."""

NAMES = ("old", "new")
"""Names of the sides, under which their modules run too."""


@dataclass(frozen=True)
class Side:
    """Side of a review, old or new."""

    name: str
    given: str
    """Name of the side on the command line."""
    cc: str
    """Name of the congestion control for flows."""
    modules: tuple[Module, ...]
    """Modules of the congestion control: none for a built-in one, several where it runs on several
    families.
    """
    lab: Path | None = None
    """Folder of a kernel that stands for the side's machines. None for congestion controls."""
    beside: Path | None = None
    """Folder of the kernel that CUBIC and Reno run on beside this one, which may be the same."""
    whole: bool = False
    """Whether the side is all of a stack, a guest or a kernel, and not a congestion control alone."""

    @property
    def about(self) -> str:
        """Description of the side for readers."""
        if self.whole:
            return self.given
        if not self.modules:
            return f"{self.given}, as cwndlab models it"
        first = self.modules[0]
        given = self.given.partition(",")[0].rpartition("/")[2]
        return f"{given} ({first.abi}, sha256 {first.sha256[:12]})"


@dataclass(frozen=True)
class Sides:
    """Sides of a review, and the stacks that run them."""

    old: Side
    new: Side
    stack: Stack
    patched: tuple[str, ...] = ()
    """Other files that a patch changes, which are not judged."""
    change: str = ""
    """Difference of the sources, as `diff -u` says it; empty where they are private, built in or unlike."""
    testbed: str = testbeds.MODEL

    @property
    def are_kernels(self) -> bool:
        """Whether the sides are kernels, and no congestion controls."""
        return self.testbed != testbeds.MODEL

    @property
    def modules(self) -> tuple[Module, ...]:
        """Modules of the sides that are not built in."""
        return (*self.old.modules, *self.new.modules)


def sides(
    old: str, new: str | None, *, stack: str | None = None, patch: Path | None = None, private: bool = False
) -> Sides:
    """Compile what OLD and NEW name; with `patch`, NEW is OLD with that patch applied.

    Each is what follows `NAME=` in `--cc`, or `builtin:NAME`. The stack is the one of that name, or the one
    that the modules' interface names, or the newest of their family. Raises InputError.
    """
    if (new is None) == (patch is None):
        raise InputError("review: give OLD and NEW, or OLD and --patch FILE")
    besides: tuple[str, ...] = ()
    if patch is None:
        pair = _side("old", old, private), _side("new", str(new), private)
    elif old.startswith(BUILT_IN):
        raise InputError(f"review: --patch changes a file, and {old} is built in")
    else:
        with patches.patched(compilation.Request.of(f"old={old}"), patch) as (request, besides):
            built = replace(compilation.build(replace(request, name="new"), private=private), name="new")
        patched = old.partition(",")[0].rpartition("/")[2]
        pair = _side("old", old, private), Side("new", f"{patched} with {patch.name}", "new", (built,))
    chosen = _suited(pair, stack)
    return Sides(pair[0], pair[1], chosen, besides, _change(pair))


def single(given: str, *, stack: str | None = None, private: bool = False) -> tuple[Side, Stack]:
    """Compile the one side of an evaluation, and choose its stack as `sides` does. Raises InputError."""
    side = _side("new", given, private)
    chosen = _suited((side,), stack)
    if chosen.guest:
        side = replace(side, given=f"{side.cc} of {chosen.name}", whole=True)
    return side, chosen


def modelled(given: str, subject: str, known: Sequence[str], stack: str | None) -> tuple[Side, Stack]:
    """The one side of an evaluation of what the engine has by name, and the stack of the flows beside it.

    That is the newest of Linux unless given. Raises InputError.
    """
    name = given.removeprefix(BUILT_IN)
    if not given.startswith(BUILT_IN) or name not in known:
        raise unknown(f"review: {subject}", given, [BUILT_IN + each for each in known])
    return Side("new", given, name, ()), _stack((), stack or "linux")


def kernels(before: Path, after: Path, patch: Path) -> Sides:
    """Two kernels, by their folders, the second with a patch on top, on which CUBIC's flows run."""
    known = loader.support(testbeds.GUEST, before).catalogue()
    old = Side("old", f"kernel {before.name}", "cubic", (), before, whole=True)
    new = Side("new", f"kernel {after.name}, with {patch.name}", "cubic", (), after, whole=True)
    change = patch.read_text(encoding="utf-8", errors="replace")
    return Sides(old, new, known.stacks[known.newest["linux"]], change=change, testbed=testbeds.GUEST)


def of_kernel(given: str | None, folder: Path, before: Path, patch: Path | None) -> tuple[Side, Stack]:
    """A congestion control of a kernel, `builtin:NAME` or CUBIC, as the one side of an evaluation.

    CUBIC and Reno run on the kernel `before` a patch. Raises InputError.
    """
    known = loader.support(testbeds.GUEST, folder).catalogue()
    stack = known.stacks[known.newest["linux"]]
    wanted = given or f"{BUILT_IN}cubic"
    if not wanted.startswith(BUILT_IN):
        raise InputError(f"review: --kernel runs what the kernel has: give builtin:NAME, not {wanted}")
    cc = wanted.removeprefix(BUILT_IN)
    about = f"{cc} of kernel {folder.name}" + (f", with {patch.name}" if patch else "")
    return Side("new", about, cc, (), folder, before, whole=True), stack


def _side(name: str, given: str, private: bool) -> Side:
    if given.startswith(BUILT_IN):
        return Side(name, given, given.removeprefix(BUILT_IN).partition("@")[0], ())
    return Side(name, given, name, sources.build(f"{name}={given}", private=private))


def _suited(given: Sequence[Side], wanted: str | None) -> Stack:
    """Choose the stack of that name, or the one that the sides name; it has to be able to run all of them."""
    chosen = _stack(given, wanted)
    for side in given:
        if not side.modules and side.cc not in (*chosen.cc, *chosen.cc_alias):
            raise unknown(f"review: {side.given}: congestion control of {chosen.name}", side.cc, chosen.cc)
        families = [module.family for module in side.modules]
        if side.modules and chosen.family not in families:
            problem = f"is for {' and '.join(families)}, and {chosen.name} is of {chosen.family}"
            raise InputError(f"review: {side.given}: {problem}")
    return chosen


def _stack(given: Sequence[Side], wanted: str | None) -> Stack:
    known = _catalogue()
    named = (side.given.partition("@")[2] for side in reversed(given) if side.given.startswith(BUILT_IN))
    wanted = wanted or next(filter(None, named), None)
    if wanted is not None:
        found = known.stack(wanted)
        if found is None:
            raise unknown("--stack", wanted, known.stack_names())
        return found
    for side in reversed(given):
        if len(side.modules) == 1:
            (module,) = side.modules
            if found := known.stack(module.abi) or known.stack(module.family):
                return found
    raise InputError(f"review: say on which system with --stack ({one_of(known.newest)})")


def _catalogue() -> Catalogue:
    return loader.support(testbeds.MODEL).catalogue()


def _change(pair: tuple[Side, Side]) -> str:
    """The difference of what both were made of, where their files have the same names, or are one each."""
    old, new = (dict(side.modules[0].sources) if side.modules else {} for side in pair)
    if len(old) == len(new) == 1:
        return patches.difference(*old.values(), *new.values())
    if old.keys() != new.keys():
        return ""
    return "".join(patches.difference(old[name], new[name]) for name in old)
