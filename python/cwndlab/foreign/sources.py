"""The sources that `--cc` and `--guest` name: kernels' modules, classes of Python, libraries, guests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.foreign import GUEST, Module, compilation, guests, option, plain


def build_all(
    texts: Sequence[str], *, private: bool = False, patch: Path | None = None
) -> tuple[Module, ...]:
    """Make what each `--cc` names ready, or each `--guest` behind `guest:`; raises InputError.

    A patch is put on top of the one guest that is a source tree.
    """
    names = [text.partition("=")[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{option(name)}: the name is there twice")
    of_tree = None if patch is None else tree(texts)
    return tuple(
        module
        for text in texts
        for module in build(text, private=private, patch=patch if text == of_tree else None)
    )


def tree(texts: Sequence[str]) -> str:
    """The one option that names a guest's source tree; raises InputError."""
    trees = [text for text in texts if text.startswith(GUEST) and Path(text.partition("=")[2]).is_dir()]
    if len(trees) != 1:
        found = " and ".join(option(text.partition("=")[0]) for text in trees) or "none"
        raise InputError(f"--patch: found {found}; expected --kernel TREE, or one --guest NAME=TREE")
    return trees[0]


def build(text: str, *, private: bool = False, patch: Path | None = None) -> tuple[Module, ...]:
    """The modules of one `NAME=SOURCE`: several where it runs on several families."""
    name, _, source = text.partition("=")
    if name.startswith(GUEST):
        return (guests.build(name, source, private=private, patch=patch),)
    if plain.is_plain(source):
        return plain.build(name, source, private=private)
    return (compilation.build(compilation.Request.of(text), private=private),)
