"""`cc_params`: constants of built-in congestion controls that an experiment changes."""

import pytest

import cwndlab
from cwndlab.errors import CwndlabError

EXPERIMENT = """\
experiment: constants
duration: 30s
hosts:
  a: {{stack: {stack}, cc: {cc}}}
  b: {{stack: {stack}}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {{rate: 1gbit}}
    bottleneck: {{rate: 20mbit, delay: 20ms, queue: {{kind: pfifo, limit: 25p}}}}
flows: [{{name: f, from: a, to: b}}, {{name: g, from: a, to: b, start: 3s}}]
repeat: 1
"""

STACKS = (
    "linux-3.9",
    "linux-6.18",
    "freebsd-9.2",
    "freebsd-13",
    "freebsd-15-current",
    "freebsd-15-current/rack",
)


def rows(results, run=0):
    return results.rows(run).drop_columns(["run_id"]).to_pylist()


def ran(tmp_path, stack, cc, *overrides, name="out"):
    loaded = cwndlab.load(EXPERIMENT.format(stack=stack, cc=cc), overrides)
    return loaded.run(out=tmp_path / name)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("key", ["beta=0.9", "c=2", "fast_convergence=false"])
@pytest.mark.slow
def test_a_constant_changes_cubic(tmp_path, stack, key):
    plain = ran(tmp_path, stack, "cubic", name="plain")
    changed = ran(tmp_path, stack, "cubic", f"hosts.a.cc_params.{key}", name="changed")
    assert rows(plain) != rows(changed)


@pytest.mark.parametrize("stack", ["linux-6.18", "freebsd-13", "freebsd-15-current"])
@pytest.mark.slow
def test_the_systems_own_value_changes_nothing(tmp_path, stack):
    plain = ran(tmp_path, stack, "cubic", name="plain")
    given = [f"hosts.a.cc_params.{key}" for key in ("beta=0.7", "c=0.4", "fast_convergence=true")]
    assert rows(plain) == rows(ran(tmp_path, stack, "cubic", *given, name="same"))


@pytest.mark.parametrize(("stack", "cc"), [("freebsd-13", "newreno"), ("linux-6.18", "reno")])
@pytest.mark.slow
def test_beta_is_what_a_loss_leaves(tmp_path, stack, cc):
    loaded = cwndlab.load(
        EXPERIMENT.format(stack=stack, cc=cc) + "sweep: [{hosts.a.cc_params.beta: [0.5, 0.7, 0.9]}]\n"
    )
    results = loaded.run(out=tmp_path / "out")
    plain = ran(tmp_path, stack, cc, name="plain")
    assert rows(results, 0) == rows(plain)
    # Up to the first loss all are the same run.
    left = [results.series(run, flow="f")["ssthresh_bytes"].drop_nulls()[0] for run in range(3)]
    assert left[0] / left[2] == pytest.approx(0.5 / 0.9, rel=0.02)
    assert left[1] / left[2] == pytest.approx(0.7 / 0.9, rel=0.02)


@pytest.mark.slow
def test_a_flows_own_come_first(tmp_path):
    by_host = ran(tmp_path, "linux-6.18", "cubic", "hosts.a.cc_params.beta=0.9", name="host")
    own = ["hosts.a.cc_params.beta=0.5", "flows.f.cc_params.beta=0.9", "flows.g.cc_params.beta=0.9"]
    assert rows(by_host) == rows(ran(tmp_path, "linux-6.18", "cubic", *own, name="flow"))
    # Those of the host are not for what a flow names itself.
    other = ran(
        tmp_path,
        "linux-6.18",
        "cubic",
        "hosts.a.cc_params.beta=0.5",
        *("flows.f.cc=reno", "flows.g.cc=reno"),
        name="reno",
    )
    assert rows(other) == rows(ran(tmp_path, "linux-6.18", "reno", name="plain"))


@pytest.mark.parametrize(
    ("stack", "cc", "key", "line"),
    [
        ("linux-6.18", "bbr", "beta=0.5", "bbr on linux-6.18 has no constants that an experiment changes"),
        ("linux-6.18", "reno", "c=0.5", "found the constant c of reno; expected beta"),
        ("windows-7", "newreno", "beta=0.5", "newreno on windows-7 has no constants"),
        ("quinn", "cubic", "beta=0.5", "cubic on quinn-[0-9.]+ has no constants that an experiment changes$"),
        ("freebsd-13", "cubic", "beta=1", "a number from 0.1 to 0.99"),
        ("freebsd-13", "cubic", "gamma=1", "the unknown key 'gamma'"),
    ],
)
def test_what_is_refused(stack, cc, key, line):
    with pytest.raises(CwndlabError, match=line):
        cwndlab.load(EXPERIMENT.format(stack=stack, cc=cc), [f"hosts.a.cc_params.{key}"]).plan()


def test_real_kernels_have_none():
    text = EXPERIMENT.format(stack="linux", cc="cubic")
    for key in ("hosts.a.cc_params.beta=0.5", "flows.f.cc_params.beta=0.5"):
        with pytest.raises(CwndlabError, match="not supported by testbed netns"):
            cwndlab.load(text, [key], "netns").plan()
