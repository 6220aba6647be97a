"""Lateness of a run on this kernel, by which bounds of tests follow: a busy machine is no failure."""

from cwndlab.results.resultset import ResultSet


def late_s(results: ResultSet, run: int = 0) -> float:
    """Longest time, in s, by which the emulator let a packet go after its time in a run.

    What holds the emulator up for so long, such as another machine on the same processors, does so to the
    ends of flows as well, which say nothing of it.
    """
    record = results.record(run)
    return float(record.facts["path"]["late"]["max_ns"]) / 1e9
