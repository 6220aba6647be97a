"""The sides of a review: what OLD and NEW name, compiled, or two kernels, and the stack that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cwndlab import testbeds
from cwndlab.analysis.review import patches
from cwndlab.errors import InputError, one_of, unknown
from cwndlab.experiment.catalogue import Catalogue, Stack
from cwndlab.foreign import GUEST, Module, compilation, f_stack, sources
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
    def are_whole(self) -> bool:
        """Whether the sides are kernels or guests, and no congestion controls."""
        return self.new.whole

    def of(self, name: str) -> Side:
        """The side of a name."""
        return self.old if name == self.old.name else self.new

    def modules(self, name: str) -> tuple[Module, ...]:
        """Modules that a side's runs know: of congestion controls both, which also compete."""
        return self.of(name).modules if self.are_whole else (*self.old.modules, *self.new.modules)


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


def kernels(before: Path, after: Path, patch: Path, given: str | None = None) -> Sides:
    """Two kernels, by their folders, the second with a patch on top, on which flows of `builtin:NAME` run, or
    of CUBIC. Raises InputError.
    """
    known = loader.support(testbeds.GUEST, before).catalogue()
    stack = known.stacks[known.newest["linux"]]
    cc = _own(given, stack, "--kernel")
    flows = f"{cc} of " if given else ""
    old = Side("old", f"{flows}kernel {before.name}", cc, (), before, whole=True)
    new = Side("new", f"{flows}kernel {after.name}, with {patch.name}", cc, (), after, whole=True)
    change = patch.read_text(encoding="utf-8", errors="replace")
    return Sides(old, new, stack, change=change, testbed=testbeds.GUEST)


def guests(named: Sequence[str], patch: Path, given: str | None = None) -> Sides:
    """A guest's tree without and with a patch on top, on which flows of `builtin:NAME` run, or of CUBIC.

    `named` are options `--guest`. Raises InputError.
    """
    old, stack = of_guest(given, named, None)
    new, _ = of_guest(given, named, patch)
    tree = Path(sources.tree(_texts(named)).partition("=")[2])
    change = patch.read_text(encoding="utf-8", errors="replace")
    return Sides(replace(old, name="old"), new, stack, f_stack.left_out(tree, patch), change)


def of_kernel(given: str | None, folder: Path, before: Path, patch: Path | None) -> tuple[Side, Stack]:
    """A congestion control of a kernel, `builtin:NAME` or CUBIC, as the one side of an evaluation.

    CUBIC and Reno run on the kernel `before` a patch. Raises InputError.
    """
    known = loader.support(testbeds.GUEST, folder).catalogue()
    stack = known.stacks[known.newest["linux"]]
    cc = _own(given, stack, "--kernel")
    about = f"{cc} of kernel {folder.name}" + (f", with {patch.name}" if patch else "")
    return Side("new", about, cc, (), folder, before, whole=True), stack


def of_guest(given: str | None, named: Sequence[str], patch: Path | None) -> tuple[Side, Stack]:
    """A congestion control of a guest, `builtin:NAME` or CUBIC, as the one side of an evaluation.

    The guest is the one that is named first, or the tree that the patch is put on top of. Raises InputError.
    """
    texts = _texts(named)
    name = (texts[0] if patch is None else sources.tree(texts)).partition("=")[0]
    modules = sources.build_all(texts, patch=patch)
    stack = loader.support(testbeds.MODEL, None, modules).catalogue().stacks[name]
    cc = _own(given, stack, "--guest")
    module = next(module for module in modules if module.name == name)
    about = (f"{cc} of " if given else "") + name + (f", with {patch.name}" if patch else "")
    about += f" ({module.abi}, {module.made_of or f'sha256 {module.sha256[:16]}'})"
    # Its buffers are set as those of the system that it calls itself.
    stack = replace(stack, family=module.abi.partition("-")[0])
    return Side("new", about, cc, modules, whole=True), stack


def _texts(named: Sequence[str]) -> list[str]:
    """Options `--guest` as `sources` has them."""
    return [f"{GUEST}{text}" for text in named]


def _own(given: str | None, stack: Stack, option: str) -> str:
    """The congestion control that a kernel or guest has itself, by `builtin:NAME`: CUBIC unless given."""
    wanted = given or f"{BUILT_IN}cubic"
    if not wanted.startswith(BUILT_IN):
        raise InputError(f"review: {option} runs what is built into it: give builtin:NAME, not {wanted}")
    cc = wanted.removeprefix(BUILT_IN)
    if cc not in (*stack.cc, *stack.cc_alias):
        raise unknown(f"review: {wanted}: congestion control of {stack.name}", cc, stack.cc)
    return cc


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
