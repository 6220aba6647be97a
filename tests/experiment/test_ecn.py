"""`ecn` of hosts: Accurate ECN is for systems that have it, and means the kernel's own numbers."""

import pytest

import cwndlab
from cwndlab.errors import CwndlabError
from cwndlab.testbeds.live.linux.kernel import Kernel, known
from cwndlab.testbeds.live.linux.system import Linux

EXPERIMENT = """\
experiment: accurate
duration: 3s
hosts:
  a: {{stack: {stack}, ecn: {asks}}}
  b: {{stack: {stack}, ecn: {accepts}}}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {{rate: 20mbit, delay: 10ms, queue: {{kind: codel, ecn: true}}}}
flows: [{{name: f, from: a, to: b}}]
"""


@pytest.mark.parametrize(("asks", "accepts"), [("accurate", "accept-accurate"), ("on", "on-accept-accurate")])
def test_marks_take_the_place_of_drops(tmp_path, asks, accepts):
    loaded = cwndlab.load(EXPERIMENT.format(stack="linux-7.3", asks=asks, accepts=accepts))
    summary = loaded.run(out=tmp_path / "out").summary
    assert summary["ce_marks"][0] > 0
    assert summary["drop_rate"][0] == 0


def test_a_system_without_it_is_told(tmp_path):
    text = EXPERIMENT.format(stack="linux-6.18", asks="accurate", accepts='"on"')
    with pytest.raises(
        CwndlabError, match=r"hosts\.a\.ecn: found 'accurate'; expected off, accept or on, as"
    ) as told:
        cwndlab.load(text).plan()
    assert str(told.value).endswith("linux-6.18 has no Accurate ECN")


def test_freebsd_main_asks_for_it_or_accepts_it(tmp_path):
    text = EXPERIMENT.format(stack="freebsd-15-current", asks="accurate", accepts="accept-accurate")
    assert cwndlab.load(text).run(out=tmp_path / "out").summary["ce_marks"][0] > 0
    text = EXPERIMENT.format(stack="freebsd-15-current", asks="on-accept-accurate", accepts="accept")
    with pytest.raises(
        CwndlabError, match=r"hosts\.a\.ecn: found 'on-accept-accurate'; expected accurate or"
    ):
        cwndlab.load(text).plan()


@pytest.mark.parametrize(
    ("word", "number"), [("accurate", "3"), ("on-accept-accurate", "4"), ("accept-accurate", "5")]
)
def test_real_hosts_get_the_number_of_the_sysctl(word, number):
    system = Linux(Kernel("7.3.4", ("cubic",), ("cubic",), {}))
    assert (
        system.sysctls({"name": "a", "stack": "linux-7.3", "ecn": word, "sysctl": {}}, [])["net.ipv4.tcp_ecn"]
        == number
    )


@pytest.mark.parametrize(("release", "has"), [("6.18.44", False), ("7.3.4+", True), ("10.0", True)])
def test_kernels_have_it_by_their_version(release, has):
    sysctls = {"net.ipv4.tcp_ecn": "2", "net.ipv4.tcp_congestion_control": "cubic"}
    (stack,) = known(Kernel(release, ("cubic",), ("cubic",), sysctls), 1000).stacks.values()
    assert stack.accurate_ecn is has
