"""Experiment files read, and all that is wrong with one, which is looked at again without what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cwndlab.errors import ExperimentError, InputError, Place, together
from cwndlab.experiment import experiment, yaml_nodes
from cwndlab.experiment.experiment import Experiment, Source
from cwndlab.experiment.scenario import planner
from cwndlab.experiment.support import Support
from cwndlab.experiment.yaml_nodes import Mapping, Node, Scalar
from cwndlab.foreign import GUEST, Module
from cwndlab.results import catalogue, expectations, questions
from cwndlab.testbeds import MODEL, loader

MOST = 20
"""Errors that are looked for: who made more of them reads no further."""

CELLS = 500
"""Combinations of a sweep that are searched for errors, the first ones, each time the file is looked at."""


def load(
    source: Source,
    overrides: Sequence[str] = (),
    testbed: str = MODEL,
    *,
    lab: Path | None = None,
    cc: Sequence[str] = (),
    cc_private: bool = False,
    guest: Sequence[str] = (),
    patch: Path | None = None,
) -> Experiment:
    """Read and check an experiment, as `cwndlab.load` does, whose arguments these are.

    Raises ExperimentError for everything that is wrong without the sweep; its `all` has every error of the
    file.
    """
    named = [*cc, *(f"{GUEST}{text}" for text in guest)]
    modules: tuple[Module, ...] = ()
    if named or patch is not None:
        from cwndlab.foreign import sources  # compilers and what else builds, which few runs need

        modules = sources.build_all(named, private=cc_private, patch=patch)
    known = loader.support(testbed, lab, modules)
    file, text = experiment.text_of(source)
    try:
        return loader.read(yaml_nodes.parse(text, file), text, overrides, known)
    except ExperimentError as error:
        raise everything(error, text, overrides, known) from None


def everything(
    first: ExperimentError, source: str, overrides: Sequence[str], known: Support
) -> ExperimentError:
    """Return the first error of a file in the order of lines, which knows the others.

    `first` is what was found of the whole file, whose text is `source`. How many are found depends on the
    file alone. What may only follow from an error is none of its own, and ends the search: a flow without its
    host, a value that is missing because the wrong one was taken out.
    """
    if first.key == "format":
        return first  # the rules of another format are not known
    try:
        tree = yaml_nodes.parse(source, first.place.file)
    except ExperimentError:
        return first
    found: list[ExperimentError] = []
    while len(found) < MOST:
        try:
            _look(_mended(tree, found), source, overrides, known)
            break
        except ExperimentError as error:
            new = [each for each in error.all if not _follows(tree, each, found)]
            found += new
            if len(new) < len(error.all) or not all(_may_go(tree, each.place) for each in new):
                break
        except InputError:
            break
    if not found:
        return first
    # Of a large sweep `first` may stand behind the combinations that were looked at.
    unseen = [each for each in first.all if str(each) not in set(map(str, found))]
    return together([*found, *(each for each in unseen if not _follows(tree, each, found))])


def _look(tree: Mapping, source: str, overrides: Sequence[str], known: Support) -> None:
    """Raise `ExperimentError` for what is found first, in the sweep's cells too."""
    loaded = loader.read(tree, source, overrides, known)
    expectations.check(loaded)
    questions.check(loaded)
    catalogue.check_names(loaded)
    wrong = planner.errors(loaded, CELLS, MOST)
    if wrong:
        raise together(wrong)


def _mended(tree: Mapping, found: Sequence[ExperimentError]) -> Mapping:
    """A copy of the tree with what hints name in place of wrong values, and without what has no hint."""

    def kept(node: Node, at: Sequence[Place]) -> Node | None:
        error = next((each for each in found if any(each.place is place for place in at)), None)
        if error is not None:
            meant = _MEANT.fullmatch(error.hint or "")
            wrong = isinstance(node, Scalar) and node.place is error.place
            return Scalar(node.place, meant[1]) if meant and wrong else None
        if isinstance(node, Scalar):
            return node
        if isinstance(node, yaml_nodes.Sequence):
            items = (kept(item, [item.place]) for item in node.items)
            return yaml_nodes.Sequence(node.place, [item for item in items if item is not None])
        made = Mapping(node.place)
        for key, value in node.items.items():
            item = kept(value, [node.key_places[key], value.place])
            if item is not None:
                made.set(key, item, node.key_places[key])
        return made

    made = kept(tree, [])
    assert isinstance(made, Mapping)  # as the tree is
    return made


_MEANT = re.compile(r"did you mean (\S+)\?")


_Step = tuple[Node, str | int]
"""A container, and the key or position that is taken there."""


def _steps(tree: Mapping, place: Place) -> list[_Step]:
    """The steps that lead to what stands at a place; none if it is not of the tree."""

    def inside(node: Node) -> Iterator[tuple[str | int, tuple[Place, ...], Node]]:
        if isinstance(node, Mapping):
            for key, item in node.items.items():
                yield key, (node.key_places[key], item.place), item
        elif isinstance(node, yaml_nodes.Sequence):
            for index, item in enumerate(node.items):
                yield index, (item.place,), item

    stack: list[tuple[Node, list[_Step]]] = [(tree, [])]
    while stack:
        node, above = stack.pop()
        for step, places, item in inside(node):
            way = [*above, (node, step)]
            if any(place is other for other in places):
                return way
            stack.append((item, way))
    return []


def _may_go(tree: Mapping, place: Place) -> bool:
    """Whether what stands there can be taken out, and nothing else in the file names it."""
    words = _words(_steps(tree, place))
    named = len(words) == 2 and words[0] in ("hosts", "flows")
    return bool(words) and not named and words[-1] != "name"


def _follows(tree: Mapping, error: ExperimentError, found: Sequence[ExperimentError]) -> bool:
    """Whether an error may only be there because others were taken out."""
    own = _steps(tree, error.place)
    for other in found:
        way = _steps(tree, other.place)
        member = own and way and own[-1][0] is way[-1][0] and isinstance(way[-1][0], yaml_nodes.Sequence)
        same = f"{error.key}.".startswith(f"{other.key}.") and not member
        if same or (way and _touches(own, way)):
            return True
    return False


def _touches(own: list[_Step], other: list[_Step]) -> bool:
    """Whether an error depends on another's place: it is about what that is in, in the same section, or on
    the same axis of a sweep. The keys of a whole experiment, and of a host, stand for themselves."""
    above = 0 < len(own) < len(other) and _words(own) == _words(other)[: len(own)]
    section = other[-1][0]
    alone = len(other) == 1 or _words(other)[:-2] == ["hosts"] or not isinstance(section, Mapping)
    beside = not alone and any(node is section for node, _ in own)
    axes = _words(own)[:2] == _words(other)[:2] and _words(own)[:1] == ["sweep"]
    return above or beside or (axes and own[-1][0] is not section)


def _words(steps: list[_Step]) -> list[str | int]:
    return [word for _, word in steps]
