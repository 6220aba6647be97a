"""`family` of hosts and networks: a packet of IPv6 has a header of 40 bytes, one of IPv4 of 20."""

from pathlib import Path

import pytest

import cwndlab
from cwndlab.errors import CwndlabError
from cwndlab.results.ideal import IdlePath

EXPERIMENT = """\
experiment: family
duration: 4s
hosts:
  a: {{stack: {stack}, rcvbuf: 200KB{a}}}
  b: {{stack: {stack}, rcvbuf: 200KB{b}}}
network:
  {family}
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {{rate: 20mbit, delay: 10ms, overhead: 0, queue: {{kind: pfifo, limit: 500p}}}}
flows: [{{name: f, from: a, to: b{flow}}}]
measure: {{from: 2s, to: 4s}}
"""


def written(*, family: str = "", a: str = "", b: str = "", flow: str = "", stack: str = "linux-6.18") -> str:
    said = f"family: {family}" if family else ""
    return EXPERIMENT.format(family=said, a=a, b=b, flow=flow, stack=stack)


def test_the_share_of_a_full_link_is_that_of_its_packets(tmp_path: Path) -> None:
    goodput = {}
    for family in ("ipv4", "ipv6"):
        loaded = cwndlab.load(written(family=family))
        (cell,) = loaded.plan().runs
        headers = {"ipv4": 40, "ipv6": 60}[family]
        assert [host["mss"] for host in cell.scenario["hosts"]] == [1500 - headers] * 2
        goodput[family] = loaded.run(out=tmp_path / family).summary["goodput_mbps"][0]
        # Full packets of 1,500 bytes with 12 of timestamps, and nothing around them.
        assert goodput[family] == pytest.approx(20 * (1500 - headers - 12) / 1500, rel=0.002)


def test_a_file_without_the_key_is_of_ipv4() -> None:
    (plain,), (told,) = (cwndlab.load(text).plan().runs for text in (written(), written(family="ipv4")))
    assert plain.scenario == told.scenario
    assert "ip" not in plain.scenario["hosts"][0]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"family": "ipv5"}, "network.family: found 'ipv5'; expected one of ipv4, ipv6"),
        (
            {"a": ", family: ipv6"},
            "flows.f.to: found 'b'; expected a host of ipv6, as a is, where b is of ipv4",
        ),
        (
            {"family": "ipv6", "a": ", mss: 1460"},
            "hosts.a.mss: found '1460'; expected at most 1440, as the host's link has an MTU of 1500",
        ),
        (
            {"family": "ipv6", "flow": ", app: {kind: udp-cbr, rate: 1mbit, payload: 1460}"},
            "flows.f.app.payload: found a payload of 1460; expected at most 1452, as a",
        ),
        (
            {"family": "ipv6", "stack": "smoltcp"},
            "hosts.a.family: found ipv6; expected ipv4, as smoltcp-0.12.0 has packets of IPv4",
        ),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, str], line: str) -> None:
    with pytest.raises(CwndlabError) as told:
        cwndlab.load(written(**given)).plan()
    assert line in str(told.value)


def test_the_least_time_counts_longer_headers() -> None:
    def least(family: str) -> float:
        (cell,) = cwndlab.load(written(family=family)).plan().runs
        return IdlePath(cell.scenario, cell.scenario["flows"][0]).least_ns(1_000, None)

    # A SYN, its answer and the packet of data, each 20 bytes longer, on links of 20 Mbit/s and 1 Gbit/s.
    more = 20 * 8 * (1 / 20e6 + 2 / 1e9) * 1e9
    assert least("ipv6") - least("ipv4") == pytest.approx(3 * more, rel=0.05)
