"""What iperf3 and iperf are told, and what they cannot do."""

from typing import Any

import pytest

from cwndlab.traffic import tools


def flow(**app: Any) -> dict[str, Any]:
    return {
        "app": {"kind": "bulk", "bytes": None, "write_bytes": 131_072, **app},
        "sndbuf": None,
        "rcvbuf": None,
    }


def task(tool: str, **app: Any) -> dict[str, Any]:
    return {
        **flow(**app), "tool": tool, "cc": "reno", "start_ns": 10**9, "stop_ns": 3_500_000_000,
        "report_ns": 500_000_000, "source": "10.0.0.1", "target": "10.0.1.1", "source_port": 10000,
        "target_port": 5201,
    }  # fmt: skip


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.mark.parametrize("tool", ["iperf3", "iperf2"])
def test_a_transfer_goes_on_beyond_its_end_as_it_is_stopped_from_outside(tool: str) -> None:
    command = tools.client(task(tool))
    assert float(option(command, "-t")) > 2.5
    assert "-n" not in command
    assert option(command, "-l") == "131072"
    assert option(command, "-i") == "0.500"


@pytest.mark.parametrize(
    ("size", "writes"), [(131_072, 131_072), (200_000, 100_000), (1_000_000, 125_000), (50_000, 50_000)]
)
def test_a_transfer_of_so_many_bytes_is_whole_writes(size: int, writes: int) -> None:
    command = tools.client(task("iperf3", bytes=size))
    assert option(command, "-n") == str(size)
    assert option(command, "-l") == str(writes)
    assert "-t" not in command


def test_congestion_control_ports_and_buffers_are_those_of_the_flow() -> None:
    asked = {**task("iperf3"), "sndbuf": 300_000, "rcvbuf": 300_000}
    command = tools.client(asked)
    assert (option(command, "-C"), option(command, "--cport"), option(command, "-p")) == (
        "reno",
        "10000",
        "5201",
    )
    assert (option(command, "-w"), option(command, "-B"), option(command, "-c")) == (
        "300000", "10.0.0.1", "10.0.1.1"
    )  # fmt: skip
    old = tools.client({**asked, "tool": "iperf2"})
    assert (option(old, "-Z"), option(old, "-B"), option(old, "-w")) == ("reno", "10.0.0.1:10000", "300000")
    assert option(tools.server({**asked, "tool": "iperf2", "rcvbuf": 5000}), "-w") == "5000"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"sndbuf": 100_000}, "both ends alike"),
        ({"app": {**flow()["app"], "write_bytes": 2 << 20}}, "at most 1048576 bytes at a time"),
        (
            {"app": {**flow()["app"], "bytes": 1_000_003}},
            "whole writes, of which 1000003 bytes is no multiple",
        ),
        ({"app": {"kind": "video"}}, "app video needs our own sender"),
    ],
)
def test_what_a_tool_cannot_do_has_a_reason(changed: dict[str, Any], reason: str) -> None:
    assert tools.refusal("iperf3", flow()) is None
    assert reason in (tools.refusal("iperf3", {**flow(), **changed}) or "")


def test_only_iperf3_is_started_early() -> None:
    assert tools.lead_ns("iperf3", 40_000_000) == 3 * 40_000_000 + tools.START_NS
    assert tools.lead_ns("own", 40_000_000) == 0
