"""The engine takes what resolving makes, of every topology and every queue discipline."""

import json
from pathlib import Path

import pytest

from cwndlab import _native, load
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.suites import suites
from cwndlab.experiment.template import TEMPLATE

HERE = Path(__file__).parent
FILES = {
    path.stem: path.read_text()
    for path in [
        *(HERE.parents[1] / "examples").glob("*.yaml"),
        *HERE.glob("topologies/*.yaml"),
        *(suite.path for suite in suites()),
    ]
} | {"template": TEMPLATE}

EVERYTHING = """\
experiment: everything
duration: 10s
hosts:
  a: {stack: linux-6.8, ecn: on, hz: 250, mss: 1400, nic: {tso: true}, count: 2}
  b: {stack: freebsd-13, sysctl: {net.inet.tcp.delayed_ack: off}}
network:
  nodes: [r]
  links:
    - {from: a.1, to: r, rate: 1gbit, jitter: {kind: pareto, sd: 1ms, reorder: true}}
    - {from: a.2, to: r, rate: 1gbit, shaper: {kind: tbf, rate: 5mbit, burst: 32KiB}}
    - name: out
      from: r
      to: b
      rate: 10mbit
      delay: 5ms
      shaper: {kind: policer, rate: 8mbit, burst: 100KB}
      loss: {nth: {every: 100, packet: 3, min_payload: 1, match: {dport: 5201}}}
      duplicate: 0.1%
      corrupt: 0.1%
      schedule:
        - {at: 1s, set: {rate: 5mbit, delay: 6ms, loss: {gilbert: {p: 1%, r: 50%}}}}
        - {at: 2s, set: {queue: {kind: red, limit: 100KB, min: 10KB}, loss: {list: [1, 5]}}}
        - {at: 3s, set: {down: true}}
flows:
  - {from: a, to: b, stop: 9s, bytes: 10MB, app: {kind: bulk, write: 4KiB}}
measure: {from: 1s, to: 9s}
record: {tcp: per-ack, queue: per-change, pcap: [a.1, {at: out, snaplen: 60}]}
sweep:
  - network.links.out.queue: QUEUES
"""
NEEDS_LIMIT = ("red", "choke")
QUEUES = [
    f"{{kind: {kind}, limit: 2bdp}}" if kind in NEEDS_LIMIT else kind for kind in catalogue().queues
] + [
    "{kind: red, limit: 100KB, ecn: true, nodrop: true}",
    "{kind: dualpi2, alpha: 0.5, beta: 3, limit: 1bdp}",
    "{kind: dualpi2, typical_rtt: 10ms, step_packets: 10p, min_qlen_step: 2p, drop_enqueue: true}",
    "{kind: fq, maxrate: 3mbit, ce_threshold: 2ms}",
    "{kind: cake, flow_mode: flows, bandwidth: 9mbit}",
    "{kind: fq_pie, ecn_prob: 5, ecn: true}",
]
FILES["everything"] = EVERYTHING.replace("QUEUES", f"[{', '.join(QUEUES)}]")


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
@pytest.mark.slow
def test_the_engine_takes_every_scenario(text: str) -> None:
    for run in load(text).plan().runs:
        _native.check(json.dumps(run.scenario))


def test_the_engine_refuses_what_it_does_not_know() -> None:
    run = load(TEMPLATE).plan().runs[0]
    with pytest.raises(ValueError, match="colour"):
        _native.check(json.dumps({**run.scenario, "colour": "red"}))
