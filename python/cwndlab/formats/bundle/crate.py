"""Metadata of a bundle as an RO-Crate 1.1: what is in it, and what made it, for archives of research data.

`ro-crate-metadata.json` beside the files makes of their directory a crate. It names each file, and has an
action for each experiment: what was run, by which program, and what came out. It is JSON-LD with the terms
of schema.org: https://www.researchobject.org/ro-crate/1.1/
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cwndlab.errors import InputError, shown

FILE = "ro-crate-metadata.json"

_CONTEXT = "https://w3id.org/ro/crate/1.1/context"
_PROFILE = "https://w3id.org/ro/crate/1.1"
_AUTHOR = re.compile(r"([^<>]*[^<>\s])\s*(?:<(https?://[^<>\s]+)>)?")
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_FORMATS = {
    "csv": "text/csv",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "pcap": "application/vnd.tcpdump.pcap",
    "parquet": "application/vnd.apache.parquet",
    "sh": "application/x-sh",
    "yaml": "application/yaml",
    **dict.fromkeys(("", "c", "h", "py", "sha256", "txt"), "text/plain"),
}
"""Media types by the ending of a file's name."""

Entity = dict[str, object]


@dataclass(frozen=True, slots=True)
class Claims:
    """Facts of a bundle that only its author knows: who wrote it, and its licence."""

    authors: tuple[Entity, ...] = ()
    license: Entity | None = None

    @classmethod
    def of(cls, authors: Iterable[str], license: str | None) -> "Claims":
        """Read `NAME` or `NAME <ADDRESS>`, and an SPDX name or an address; raises InputError."""
        named = tuple(_author(text, number) for number, text in enumerate(authors, 1))
        return cls(named, None if license is None else _license(license))


@dataclass(frozen=True, slots=True)
class Made:
    """An experiment of a bundle, and what made its results."""

    name: str
    experiment: str
    runs: int
    started: str
    """Time at which its first run began, as ISO 8601 has it; `ended` is that of the last."""
    ended: str
    versions: Mapping[str, str]


def metadata(sizes: Mapping[str, int | None], made: Sequence[Made], claims: Claims) -> Entity:
    """Return the metadata of files of these sizes, None for one that is not known yet.

    Nothing of it depends on when or where it is asked for: equal results give an equal crate.
    """
    folders = {f"{kind}/{each.name}/": each for each in made for kind in ("results", "experiments")}
    inside = {name: next((folder for folder in folders if name.startswith(folder)), "./") for name in sizes}
    root: Entity = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"TCP experiments: {', '.join(each.experiment for each in made)}",
        "description": "Results of TCP experiments, made by cwndlab, and all it takes to get the same bytes",
        "datePublished": max(each.ended for each in made),
        "license": {"@id": (claims.license or _NO_LICENSE)["@id"]},
        "hasPart": _links([*folders, *_of("./", inside)]),
        "mentions": _links(f"#run-{each.name}" for each in made),
    }
    if claims.authors:
        root["author"] = _links(author["@id"] for author in claims.authors)
    descriptor = {
        "@id": FILE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": _PROFILE},
        "about": {"@id": "./"},
    }
    files = [_file(name, size) for name, size in sizes.items()]
    directories = [_directory(folder, each, _of(folder, inside)) for folder, each in folders.items()]
    return {
        "@context": _CONTEXT,
        "@graph": [
            *(descriptor, root, claims.license or _NO_LICENSE, *claims.authors),
            *directories,
            *files,
            *(entity for each in made for entity in _action(each)),
        ],
    }


_NO_LICENSE: Entity = {
    "@id": "#no-licence",
    "@type": "CreativeWork",
    "name": "No licence is stated",
    "description": "Whoever made this bundle did not say under which licence others may use it",
}


def _of(folder: str, inside: Mapping[str, str]) -> list[str]:
    return [name for name, place in inside.items() if place == folder]


def _directory(folder: str, made: Made, names: Sequence[str]) -> Entity:
    what = "Results of" if folder.startswith("results/") else "Files of"
    return {
        "@id": folder,
        "@type": "Dataset",
        "name": f"{what} the experiment {made.experiment}",
        "description": f"{what} {made.runs} runs"
        if what == "Results of"
        else "The experiment, and what it names",
        "hasPart": _links(names),
    }


def _file(name: str, size: int | None) -> Entity:
    ending = name.rpartition("/")[2].partition(".")[2].rpartition(".")[2]
    entity: Entity = {
        "@id": name,
        "@type": "File",
        "name": name.rpartition("/")[2],
        "encodingFormat": _FORMATS.get(ending, "application/octet-stream"),
    }
    return entity if size is None else entity | {"contentSize": str(size)}


def _links(ids: Iterable[object]) -> object:
    """Links to entities; a single one stands by itself, as RO-Crate recommends."""
    found = [{"@id": each} for each in ids]
    return found[0] if len(found) == 1 else found


def _action(made: Made) -> tuple[Entity, Entity]:
    """The run of an experiment, and the program that carried it out."""
    program: Entity = {
        "@id": f"#program-{made.name}",
        "@type": "SoftwareApplication",
        "name": "cwndlab",
        "description": "; ".join(f"{what}: {version}" for what, version in sorted(made.versions.items())),
        "softwareVersion": made.versions.get("cwndlab", "").partition(" ")[0],
    }
    action: Entity = {
        "@id": f"#run-{made.name}",
        "@type": "CreateAction",
        "name": f"The {made.runs} runs of {made.experiment}",
        "instrument": {"@id": program["@id"]},
        "object": {"@id": f"experiments/{made.name}/experiment.yaml"},
        "result": {"@id": f"results/{made.name}/"},
        "startTime": made.started,
        "endTime": made.ended,
    }
    return action, program


def _author(text: str, number: int) -> Entity:
    found = _AUTHOR.fullmatch(text.strip())
    if found is None:
        raise InputError(f"--author: found {shown(text)}; expected NAME or NAME <https://orcid.org/...>")
    name, address = found.groups()
    return {"@id": address or f"#author-{number}", "@type": "Person", "name": name}


def _license(text: str) -> Entity:
    if re.fullmatch(r"https?://[^\s<>\"]+", text):
        return {"@id": text, "@type": "CreativeWork", "name": text}
    if not _SPDX.fullmatch(text):
        raise InputError(
            f"--license: found {shown(text)}; expected a name of SPDX such as CC-BY-4.0, or an address"
        )
    return {"@id": f"https://spdx.org/licenses/{text}", "@type": "CreativeWork", "name": text}
