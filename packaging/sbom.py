"""Prints the software bill of materials of a wheel: CycloneDX 1.5 of the crates of others in it.

`python packaging/sbom.py [TARGET...]`: of the wheels for these targets of Rust, x86_64-unknown-linux-gnu
unless named. A wheel holds the engine, and the engine of the live lab for a browser. Python packages are not
in it: pip reads from its metadata which it needs. The same commit prints the same bytes; its time is
SOURCE_DATE_EPOCH, where that is set.
"""

import json
import os
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ("cwndlab-python", "cwndlab-web")
"""Crates whose libraries a wheel holds."""


def main() -> None:
    """Print the document."""
    targets = sys.argv[1:] or ["x86_64-unknown-linux-gnu"]
    print(json.dumps(document(targets), indent=1, ensure_ascii=False))


def document(targets: list[str]) -> dict[str, Any]:
    """The bill of the wheels for some targets."""
    crates: dict[str, dict[str, Any]] = {}
    needed: dict[str, set[str]] = {}
    for target in targets:
        told = metadata(target)
        packages = {package["id"]: package for package in told["packages"]}
        nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
        ahead = [name for name, package in packages.items() if package["name"] in COMPILED]
        seen = set(ahead)
        while ahead:
            name = ahead.pop()
            below = [dependency["pkg"] for dependency in nodes[name]["deps"] if compiled(dependency)]
            needed.setdefault(name, set()).update(below)
            crates[name] = packages[name]
            ahead += [each for each in below if each not in seen]
            seen.update(below)
    others = sorted((name for name in crates if crates[name]["source"]), key=lambda name: purl(crates[name]))
    checksums = {
        (package["name"], package["version"]): package["checksum"]
        for package in tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
        if "checksum" in package
    }
    version = next(package["version"] for package in crates.values() if package["name"] in COMPILED)
    whole = f"pkg:pypi/cwndlab@{version}"
    own = {name for name in crates if name not in others}
    direct = {each for name in own for each in needed[name]} - own
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            **timestamp(),
            "component": {
                "type": "application",
                "bom-ref": whole,
                "name": "cwndlab",
                "version": version,
                "purl": whole,
                "licenses": [{"license": {"id": "BSD-2-Clause"}}],
            },
        },
        "components": [component(crates[name], checksums) for name in others],
        "dependencies": [
            {"ref": whole, "dependsOn": sorted(purl(crates[name]) for name in direct)},
            *(
                {"ref": purl(crates[name]), "dependsOn": sorted(purl(crates[each]) for each in needed[name])}
                for name in others
            ),
        ],
    }


def metadata(target: str) -> Any:
    """Ask cargo for the metadata of all crates for a target."""
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout)


def compiled(dependency: dict[str, Any]) -> bool:
    """Whether a dependency is for more than tests and builds."""
    return any(each["kind"] is None for each in dependency["dep_kinds"])


def component(package: dict[str, Any], checksums: dict[tuple[str, str], str]) -> dict[str, Any]:
    """A crate, with its licence and the SHA-256 by which Cargo.lock pins it."""
    return {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
        # Old crates separate alternatives by a slash.
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        "hashes": [{"alg": "SHA-256", "content": checksums[package["name"], package["version"]]}],
    }


def purl(package: dict[str, Any]) -> str:
    """The name of a crate in package-url's form."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def timestamp() -> dict[str, str]:
    """The time of the commit, where it is told."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    return {"timestamp": datetime.fromtimestamp(int(told), UTC).isoformat()} if told else {}


if __name__ == "__main__":
    main()
