"""The graph of imports of a package, read from its sources; imports inside functions count as any other."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, frozenset[str]]
"""By module, with dots and without the package's own name, the modules that it imports."""


def read(package: Path) -> Graph:
    """The graph of the package in a directory; modules that are compiled are known by their stubs."""
    files = {_name(package, file): file for file in package.rglob("*.py*") if file.suffix in (".py", ".pyi")}
    return {module: frozenset(_imports(package.name, module, file, files)) for module, file in files.items()}


def cycles(graph: Graph) -> list[list[str]]:
    """Modules that import each other, each group once, in order (Tarjan's strongly connected components)."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        path.append(module)
        for imported in sorted(graph[module]):
            if imported not in index:
                visit(imported)
            if imported in path:
                low[module] = min(low[module], low[imported])
        if low[module] == index[module]:
            group = path[path.index(module) :]
            del path[path.index(module) :]
            if len(group) > 1 or module in graph[module]:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def _name(package: Path, file: Path) -> str:
    parts = file.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(package: str, module: str, file: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules that a file imports; of `from a import b` the module `a.b`, or `a` where `b` is none."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno}: imports are absolute here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == package:
                found = rest if rest in known else rest.rpartition(".")[0]
                if found != module:
                    yield found
