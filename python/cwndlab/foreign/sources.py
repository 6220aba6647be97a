"""The sources that `--cc` and `--guest` name: kernels' modules, classes of Python, libraries, guests."""

from __future__ import annotations

from collections.abc import Sequence

from cwndlab.errors import InputError
from cwndlab.foreign import GUEST, Module, compilation, guests, option, plain


def build_all(texts: Sequence[str], *, private: bool = False) -> tuple[Module, ...]:
    """Make what each `--cc` names ready, or each `--guest` behind `guest:`; raises InputError."""
    names = [text.partition("=")[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{option(name)}: the name is there twice")
    return tuple(module for text in texts for module in build(text, private=private))


def build(text: str, *, private: bool = False) -> tuple[Module, ...]:
    """The modules of one `NAME=SOURCE`: several where it runs on several families."""
    name, _, source = text.partition("=")
    if name.startswith(GUEST):
        return (guests.build(name, source, private=private),)
    if plain.is_plain(source):
        return plain.build(name, source, private=private)
    return (compilation.build(compilation.Request.of(text), private=private),)
