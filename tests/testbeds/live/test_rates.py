"""Applications keep their rates on this host's kernel, and send there what they send in the model."""

from pathlib import Path

import pytest
from dumbbell import Command
from lateness import late_s

import cwndlab as api

pytestmark = pytest.mark.live

EXPERIMENT = """\
experiment: rates
duration: 4s
hosts: {a: {stack: STACK}, b: {stack: STACK}}
network: {star: {link: {rate: 100mbit, delay: 2ms}}}
flows:
  - {name: turns, from: a, to: b, app: {kind: on-off, rate: 100kbit, on: 1s, off: 1s}}
  - {name: whole, from: a, to: b, app: {kind: on-off, rate: 100kbit, on: 1s, off: 1s, write: 12.5KB}}
  - name: drawn
    from: a
    to: b
    app: {kind: on-off, rate: 1mbit, on: 200ms, off: 200ms, distribution: exponential}
  - {name: steady, from: a, to: b, app: {kind: rate-limited, rate: 100kbit}}
  - {name: large, from: a, to: b, app: {kind: rate-limited, rate: 100kbit, write: 128KiB}}
  - {name: cross, from: a, to: b, app: {kind: background, load: 2mbit, size: 20KB}}
start_jitter: 300ms
repeat: 1
"""


def test_this_kernel_is_given_what_the_model_is(tmp_path: Path, cwndlab: Command) -> None:
    read, late = {}, {}
    for testbed, stack in (("netns", "linux"), ("sim", "linux-6.18")):
        file, out = tmp_path / f"{testbed}.yaml", tmp_path / testbed
        file.write_text(EXPERIMENT.replace("STACK", stack), encoding="utf-8")
        ran = cwndlab("run", file, "--testbed", testbed, "-o", out, "--no-report")
        assert ran.returncode == 0, ran.stderr
        results = api.open(out)
        read[testbed] = {flow["flow"]: flow["goodput_bytes"] for flow in results.record(0).summary["flows"]}
        late[testbed] = late_s(results) if testbed == "netns" else 0.0
    for flow in ("turns", "whole", "steady", "large"):
        # Half of the time on, or all of it: no time of sending carries more than the rate makes of it.
        most = 12_500 * (2 if flow in ("turns", "whole") else 4)
        assert 0 < read["netns"][flow] <= most, flow
        assert 0 < read["sim"][flow] <= most, flow
    # What the run's end cuts off, a block or a transfer, may be on either side of it, and so may what was
    # to be sent while the machine was late.
    for flow, bytes_a_second in (("drawn", 125_000), ("cross", 250_000)):
        modelled = read["sim"][flow]
        margin = 0.1 * modelled + late["netns"] * bytes_a_second
        assert read["netns"][flow] == pytest.approx(modelled, abs=margin), flow
