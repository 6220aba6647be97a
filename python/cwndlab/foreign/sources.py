"""The sources that `--cc` names: a kernel's module in C, a class of Python, or a shared library."""

from __future__ import annotations

from collections.abc import Sequence

from cwndlab.errors import InputError
from cwndlab.foreign import Module, compilation, plain


def build_all(texts: Sequence[str], *, private: bool = False) -> tuple[Module, ...]:
    """Make what each `--cc` names ready; raises InputError."""
    names = [text.partition("=")[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--cc {name}: the name is there twice")
    return tuple(module for text in texts for module in build(text, private=private))


def build(text: str, *, private: bool = False) -> tuple[Module, ...]:
    """The modules of one `NAME=SOURCE`: several where it runs on several families."""
    name, _, source = text.partition("=")
    if plain.is_plain(source):
        return plain.build(name, source, private=private)
    return (compilation.build(compilation.Request.of(text), private=private),)
