"""No two modules of a crate need each other; to others a parent and its children are one module.

Looks at `use` lines and at paths that begin with `crate`, `self` or `super`. Methods that are called are not
seen.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CRATES = Path(__file__).resolve().parents[2] / "crates"

Module = tuple[str, ...]
"""The path of a module from the root of its crate, which is ()."""

USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
INLINE_PATH = re.compile(r"\b((?:crate|self|super)(?:::\w+)+)")
INLINE_MODULE = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?mod (\w+) \{\n(.*?)^\1\}", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//.*")


@pytest.mark.parametrize("crate", sorted(path.parent.name for path in CRATES.glob("*/src")))
def test_modules_form_no_cycle(crate: str) -> None:
    assert cycles(CRATES / crate / "src") == []


def test_a_planted_cycle_is_found(tmp_path: Path) -> None:
    (tmp_path / "sender").mkdir()
    (tmp_path / "lib.rs").write_text("mod receiver;\nmod sender;\npub use sender::Sender;\n")
    (tmp_path / "sender/mod.rs").write_text("mod rtt;\npub struct Sender;\n")
    (tmp_path / "sender/rtt.rs").write_text("use super::Sender;\nuse crate::{\n    receiver::Receiver,\n};\n")
    (tmp_path / "receiver.rs").write_text("pub struct Receiver;\n")
    assert cycles(tmp_path) == []
    (tmp_path / "receiver.rs").write_text("pub struct Receiver(crate::Sender);\n")
    assert cycles(tmp_path) == [["receiver", "sender"]]


def cycles(source: Path) -> list[list[str]]:
    """The groups of modules below `source` that need each other in a circle."""
    texts = {name: text for file in source.rglob("*.rs") for name, text in modules(source, file)}
    imports = {name: dict(imported(name, text, texts)) for name, text in texts.items()}
    needs: dict[Module, set[Module]] = {}
    for name, text in texts.items():
        paths = {path for _, path in imported(name, text, texts)}
        paths |= {absolute(name, match.split("::"), texts) for match in INLINE_PATH.findall(text)}
        for target in {module for path in paths for module in defining(path, texts, imports)}:
            shared = next((at for at, (a, b) in enumerate(zip(name, target, strict=False)) if a != b), None)
            if shared is not None:  # otherwise one is the other's parent
                needs.setdefault(name[: shared + 1], set()).add(target[: shared + 1])
    circles = {frozenset(circle(module, needs)) for module in needs} - {frozenset[Module]()}
    return sorted(sorted("::".join(module) for module in circle) for circle in circles)


def circle(module: Module, needs: dict[Module, set[Module]]) -> set[Module]:
    """All modules that `module` needs and that need it, itself with them; empty if there are none."""
    return {other for other in reached(module, needs) if module in reached(other, needs)}


def reached(start: Module, needs: dict[Module, set[Module]]) -> set[Module]:
    """All modules that `start` needs, directly or through others."""
    found: set[Module] = set()
    pending = [start]
    while pending:
        new = needs.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def modules(source: Path, file: Path) -> Iterator[tuple[Module, str]]:
    """The modules of a file with their text: its own, and those written out inside it."""
    name = file.relative_to(source).with_suffix("").parts
    if name[-1] in ("mod", "lib"):
        name = name[:-1]
    text = COMMENT.sub("", file.read_text(encoding="utf-8"))
    for match in INLINE_MODULE.finditer(text):
        yield (*name, match[2]), match[3]
    yield name, INLINE_MODULE.sub("", text)


def imported(name: Module, text: str, texts: dict[Module, str]) -> Iterator[tuple[str, Module]]:
    """What the `use` lines of a module bring: each name with the path it stands for."""
    for tree in USE.findall(text):
        for path, alias in leaves("".join(tree.split(" " * 4)).replace("\n", "")):
            yield alias, absolute(name, path, texts)


def leaves(tree: str) -> Iterator[tuple[list[str], str]]:
    """The paths of a tree `a::{b, c::d as e}`, each with the name it gets."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        path, _, alias = head.partition(" as ")
        parts = path.strip().removesuffix("::self").split("::")
        yield parts, alias.strip() or parts[-1]
        return
    depth, branch = 0, ""
    for letter in rest[: rest.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if branch.strip():
                yield from leaves(head + branch.strip())
            branch = ""
        else:
            branch += letter


def absolute(name: Module, path: list[str], texts: dict[Module, str]) -> Module:
    """A path as written in module `name`, from the root of the crate; () for one that leads out of it."""
    if path[0] == "crate":
        return tuple(path[1:])
    ups = next((at for at, part in enumerate(path) if part not in ("self", "super")), len(path))
    if ups == 0 and (*name, path[0]) not in texts:
        return ()
    return (*name[: len(name) - path.count("super")], *path[ups:])


def defining(
    path: Module, texts: dict[Module, str], imports: dict[Module, dict[str, Module]]
) -> Iterator[Module]:
    """The modules that a path names: the one it leads to, and where that has the name from."""
    module: Module = ()
    while path[: len(module) + 1] in texts and len(module) < len(path):
        module = path[: len(module) + 1]
    yield module
    rest = path[len(module) :]
    if rest and imports[module].get(rest[0], ()) not in ((), path[: len(module) + 1]):
        yield from defining((*imports[module][rest[0]], *rest[1:]), texts, imports)


if __name__ == "__main__":
    for crate in sorted(CRATES.glob("*/src")):
        print(crate.parent.name, cycles(crate))
