"""The lab file of testbed netns: commands around runs, programs that carry flows out, loggers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cwndlab.experiment import locate, yaml_nodes
from cwndlab.experiment.schema.leaves import Name
from cwndlab.experiment.schema.section import Section, about, required
from cwndlab.testbeds.live import user_programs
from cwndlab.testbeds.live.user_programs import Around, Logger, Program


class LabFile(Section):
    """A lab file of namespaces."""

    section = "lab"
    lab: Name = required("the lab's name")
    hosts: dict[Name, Around] = about("commands at hosts of the experiment, by their names", {})
    programs: dict[Name, Program] = about("what carries flows out instead of iperf3, by their names", {})
    loggers: dict[Name, Logger] = about("programs that write down what happens, by name", {})


def read(path: Path) -> LabFile:
    """The lab of a file; raises `ExperimentError`, one line with file, line and key."""
    return locate.check(LabFile, yaml_nodes.parse(yaml_nodes.read_file(path), str(path)))


def commands(path: Path) -> Iterator[str]:
    """Yield the commands that a lab file has run, a line each."""
    lab = read(path)
    for name, around in lab.hosts.items():
        yield from user_programs.lines(name, around)
    yield from user_programs.described(lab.programs, lab.loggers)
