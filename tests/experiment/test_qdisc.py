"""`nic.qdisc` of hosts: a queue discipline of Linux stands in the place of the transmit queue."""

import pytest

import cwndlab
from cwndlab.errors import CwndlabError

EXPERIMENT = """\
experiment: qdisc
duration: 3s
hosts:
  a: {{stack: {stack}, nic: {{{nic}}}{more}}}
  b: {{stack: linux-6.18}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {{rate: 1gbit}}
    bottleneck: {{rate: 50mbit, delay: 20ms}}
record: {{tcp: per-ack}}
flows: [{{name: f, from: a, to: b}}]
"""


def loaded(nic, stack="linux-6.18", more=""):
    return cwndlab.load(EXPERIMENT.format(stack=stack, nic=nic, more=more))


def test_it_stands_at_the_hosts_own_end_of_its_cable():
    (run, *_) = loaded("qdisc: {kind: fq, horizon: 2s, ce_threshold: 1ms}").plan().runs
    links = {link["name"]: link["queue"] for link in run.scenario["links"]}
    queue = links["access.a"]
    assert (queue["kind"], queue["horizon_ns"], queue["ce_threshold_ns"]) == ("fq", 2 * 10**9, 10**6)
    # Two and ten packets of MTU and Ethernet's header, as fq_init has them.
    assert (queue["quantum_bytes"], queue["initial_quantum_bytes"]) == (3028, 15140)
    assert {kind["kind"] for name, kind in links.items() if name != "access.a"} == {"pfifo"}


def test_cubic_is_paced_behind_fq_alone(tmp_path):
    def paced(nic):
        rates = loaded(nic).run(out=tmp_path / nic[:9]).series("tcp").collect()["pacing_bps"]
        return len(rates.drop_nulls())

    assert paced("tso: false") == 0
    assert paced("qdisc: fq") > 100


@pytest.mark.parametrize(
    ("nic", "stack", "more", "told"),
    [
        ("qdisc: fq", "freebsd-15-current", "", r"nic\.qdisc: found fq on .*; expected a host with Linux"),
        ("qdisc: fq, tx_queue: 50p", "linux-6.18", "", r"nic\.tx_queue: found a tx_queue beside a qdisc"),
        ("qdisc: fq", "linux-6.18", ", egress: {delay: 1ms}", r"nic\.qdisc: found fq beside egress"),
        (
            "qdisc: {kind: pfifo, limit: 2bdp}",
            "linux-6.18",
            "",
            r"qdisc\.limit: found 2bdp; expected a number",
        ),
    ],
)
def test_what_cannot_have_it_is_told(nic, stack, more, told):
    with pytest.raises(CwndlabError, match=told):
        loaded(nic, stack, more).plan()
