"""What iperf3 and iperf are told, and what they cannot do."""

from typing import Any

import pytest

from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.traffic import load as tools_of_load
from cwndlab.testbeds.live.traffic import tools


def flow(**app: Any) -> dict[str, Any]:
    return {
        "app": {"kind": "bulk", "bytes": None, "write_bytes": 131_072, **app},
        "sndbuf": None,
        "rcvbuf": None,
    }


def task(**app: Any) -> dict[str, Any]:
    return {
        **flow(**app), "cc": "reno", "start_ns": 10**9, "stop_ns": 3_500_000_000, "source": "10.0.0.1",
        "target": "10.0.1.1", "source_port": 10000, "target_port": 5201,
    }  # fmt: skip


def client(tool: str, task: dict[str, Any]) -> list[str]:
    return tools.client(tool, task, 500_000_000)


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.mark.parametrize("tool", ["iperf3", "iperf2"])
def test_a_transfer_goes_on_beyond_its_end_as_it_is_stopped_from_outside(tool: str) -> None:
    command = client(tool, task())
    assert float(option(command, "-t")) > 2.5
    assert "-n" not in command
    assert option(command, "-l") == "131072"
    assert option(command, "-i") == "0.500"


@pytest.mark.parametrize(
    ("size", "writes"), [(131_072, 131_072), (200_000, 100_000), (1_000_000, 125_000), (50_000, 50_000)]
)
def test_a_transfer_of_so_many_bytes_is_whole_writes(size: int, writes: int) -> None:
    command = client("iperf3", task(bytes=size))
    assert option(command, "-n") == str(size)
    assert option(command, "-l") == str(writes)
    assert "-t" not in command


def test_congestion_control_ports_and_buffers_are_those_of_the_flow() -> None:
    asked = {**task(), "sndbuf": 300_000, "rcvbuf": 300_000}
    command = client("iperf3", asked)
    assert (option(command, "-C"), option(command, "--cport"), option(command, "-p")) == (
        "reno",
        "10000",
        "5201",
    )
    assert (option(command, "-w"), option(command, "-B"), option(command, "-c")) == (
        "300000", "10.0.0.1", "10.0.1.1"
    )  # fmt: skip
    old = client("iperf2", asked)
    assert (option(old, "-Z"), option(old, "-B"), option(old, "-w")) == ("reno", "10.0.0.1:10000", "300000")
    assert option(tools.server("iperf2", {**asked, "rcvbuf": 5000}, 1), "-w") == "5000"


def test_the_ip_version_is_that_of_the_addresses() -> None:
    asked = {**task(), "source": "fd00::1", "target": "fd00::1:1"}
    for command in (client("iperf3", asked), tools.server("iperf3", asked, 1)):
        assert "-6" in command
        assert "-4" not in command
    assert "-4" in client("iperf3", task())


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
    assert tools.refusal("iperf3", flow(), "ipv6") is None
    assert "IPv6" in (tools.refusal("iperf2", flow(), "ipv6") or "")
    assert reason in (tools.refusal("iperf3", {**flow(), **changed}) or "")


def test_only_iperf3_is_started_early() -> None:
    assert tools.lead_ns("iperf3", 40_000_000) == 3 * 40_000_000 + tools.START_NS
    assert tools.lead_ns("own", 40_000_000) == 0


def session(**app: Any) -> dict[str, Any]:
    """A Scenario of one loadlatency session, as far as the tool is concerned."""
    whole = {"kind": "loadlatency", "group": "ll", "scenario": 4, "write_bytes": 131_072, "ping_bytes": 16}
    app = {**whole, "interval_ns": 20_000_000, **app}
    pinger = {"name": "ll", "start_ns": 0, "stop_ns": None, "cc": "cubic", "app": {**app, "part": "pinger"}}
    up = {**pinger, "name": "ll.up1", "start_ns": 2 * 10**9, "app": {**app, "part": "upload"}}
    down = {**up, "name": "ll.down1", "cc": "reno", "app": {**app, "part": "download"}}
    other = {**up, "name": "f2", "app": {"kind": "bulk"}}
    return {"duration_ns": 8 * 10**9, "flows": [pinger, up, down, other]}


def test_the_load_begins_when_the_experiment_says() -> None:
    made = session()
    starts = {"ll": 30_000_000, "ll.up1": 2 * 10**9 + 10_000_000, "ll.down1": 2 * 10**9, "f2": 0}
    ends = Ends("ll", "a", "b", "10.0.0.1", "10.0.1.1", 10000, 5201)
    told = tools_of_load.orders(made, made["flows"][0], ends, starts, 10_000_000)
    # 35 pings of 20 ms and 5 round trips before.
    assert told["start_ns"] == 1_250_000_000
    assert (told["client"]["duration_s"], told["client"]["cc"], told["server"]["cc"]) == (6, "cubic", "reno")
    # Over a path on which pings take longer than the idle time, as soon as it may.
    assert tools_of_load.orders(made, made["flows"][0], ends, starts, 200_000_000)["start_ns"] == 30_000_000


@pytest.mark.parametrize(
    ("app", "sndbuf", "load_ns", "reason"),
    [
        ({"interval_ns": 10_000_000}, None, 10**9, "interval_ns: the tool has 20000000, not 10000000"),
        ({"write_bytes": 1}, None, 10**9, "write_bytes: the tool has 131072, not 1"),
        ({}, 65_536, 10**9, "the tool leaves the buffers to the system: no sndbuf or rcvbuf"),
        ({}, None, 10**8, "a load of 0.1 s; the tool takes at least 0.5 s"),
    ],
)
def test_what_the_loadlatency_tool_cannot_do_has_a_reason(
    app: dict[str, Any], sndbuf: int | None, load_ns: int, reason: str
) -> None:
    given = session(**app)["flows"][0]["app"]
    assert tools_of_load.refusal(given, sndbuf, None, load_ns) == reason
    assert tools_of_load.refusal(session()["flows"][0]["app"], None, None, 10**9) is None
