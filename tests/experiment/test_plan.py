"""Plans: cells in the order of the sweep, repeats inside, overrides before everything."""

import json
from pathlib import Path

import pytest

import malformed
from cwndlab import load
from cwndlab.errors import ExperimentError, InputError
from cwndlab.experiment import yaml_nodes
from cwndlab.experiment.plan import PlannedRun, scenario_hash

BASE = malformed.GOOD[: malformed.GOOD.index("sweep:")]


def values(text: str, *overrides: str) -> list[tuple[str, ...]]:
    return [tuple(run.cell.values()) for run in load(text, overrides).plan().runs if run.repeat == 0]


def one(text: str, *overrides: str) -> PlannedRun:
    (run,) = load(text, overrides).plan().runs
    return run


def test_axes_are_crossed_in_their_order_with_repeats_inside() -> None:
    plan = load(malformed.GOOD).plan()
    assert plan.keys == ("hosts.a.cc", "network.dumbbell.bottleneck.rate", "network.dumbbell.reverse.rate")
    assert (plan.cells, plan.repeat, len(plan.runs)) == (4, 5, 20)
    assert plan.simulated_ns == 20 * 90 * 10**9
    assert values(malformed.GOOD) == [
        ("newreno", "2mbit", "1mbit"), ("newreno", "10mbit", "10mbit"),
        ("cubic", "2mbit", "1mbit"), ("cubic", "10mbit", "10mbit"),
    ]  # fmt: skip
    assert [run.index for run in plan.runs] == list(range(20))
    assert [run.repeat for run in plan.runs] == [0, 1, 2, 3, 4] * 4
    assert [run.scenario["repeat"] for run in plan.runs] == [0, 1, 2, 3, 4] * 4
    last = plan.runs[-1].scenario
    assert last["flows"][0]["cc"] == "cubic"
    assert [link["rate_bps"] for link in last["links"][:2]] == [10**7, 10**7]
    assert [link["rate_bps"] for link in plan.runs[0].scenario["links"][:2]] == [2 * 10**6, 10**6]


def test_an_experiment_without_sweep_is_one_cell() -> None:
    run = one(BASE)
    assert run.cell == {}
    assert load(BASE).plan().keys == ()


def test_hashes_name_scenarios() -> None:
    runs = load(malformed.GOOD).plan().runs
    assert len({run.scenario_hash for run in runs}) == 20
    again = load(malformed.GOOD).plan().runs
    assert [run.scenario_hash for run in runs] == [run.scenario_hash for run in again]
    shuffled = dict(reversed(runs[0].scenario.items()))
    assert scenario_hash(json.loads(json.dumps(shuffled))) == runs[0].scenario_hash
    assert one(BASE).scenario_hash != one(BASE, "seed=2").scenario_hash


def test_keys_reach_list_members_by_name_and_by_number() -> None:
    for key in ("flows.f1.stop", "flows.1.stop"):
        assert one(BASE, f"{key}=9s").scenario["flows"][0]["stop_ns"] == 9 * 10**9
    unnamed = BASE.replace("name: f1, ", "")
    assert one(unnamed, "flows.f1.stop=9s").scenario["flows"][0]["stop_ns"] == 9 * 10**9


def test_what_follows_sysctl_is_one_name() -> None:
    run = one(BASE, "hosts.a.sysctl.net.inet.tcp.abc_l_var=44")
    assert run.scenario["hosts"][0]["sysctl"] == {"net.inet.tcp.abc_l_var": 44}
    swept = BASE + "sweep:\n  - hosts.a.sysctl.net.inet.tcp.abc_l_var: [2, 44]\n"
    assert values(swept) == [("2",), ("44",)]


def test_a_word_for_an_app_or_queue_takes_parameters() -> None:
    run = one(BASE, "flows.f1.app.write=4KiB")
    assert run.scenario["flows"][0]["app"] == {"kind": "bulk", "write_bytes": 4096, "bytes": None}


def test_sections_and_lists_can_be_swept() -> None:
    text = BASE + "sweep:\n  - network.dumbbell.bottleneck.queue: [{kind: pfifo, limit: 5p}, codel]\n"
    assert values(text) == [("{kind: pfifo, limit: 5p}",), ("codel",)]
    kinds = [run.scenario["links"][0]["queue"]["kind"] for run in load(text).plan().runs]
    assert kinds == ["pfifo", "codel"]


def test_a_swept_section_is_not_shared_between_cells() -> None:
    text = BASE + (
        "sweep:\n"
        "  - network.dumbbell.bottleneck.queue: [{kind: pfifo, limit: 5p}, {kind: codel, limit: 7p}]\n"
        "  - network.dumbbell.bottleneck.queue.limit: [1p, 2p]\n"
    )
    plan = load(text).plan()
    assert [run.scenario["links"][0]["queue"]["limit_packets"] for run in plan.runs] == [1, 2, 1, 2]
    assert plan.runs[1].cell["network.dumbbell.bottleneck.queue"] == "{kind: pfifo, limit: 5p}"


def test_a_sweep_may_bring_what_the_file_leaves_out() -> None:
    text = BASE.replace("stack: freebsd-9.2, ", "") + "sweep:\n  - hosts.a.stack: [freebsd-9.2, linux-3.9]\n"
    stacks = [run.scenario["hosts"][0]["stack"] for run in load(text).plan().runs]
    assert stacks == ["freebsd-9.2", "linux-3.9"]


def test_an_override_of_a_swept_key_cuts_its_axis() -> None:
    assert values(malformed.GOOD, "hosts.a.cc=cubic", "repeat=1") == [
        ("cubic", "2mbit", "1mbit"), ("cubic", "10mbit", "10mbit")
    ]  # fmt: skip


NAMED = malformed.GOOD.replace(malformed.AXIS, malformed.TUNING).replace("repeat: 5", "repeat: 1")


def test_levels_set_several_keys_and_leave_the_others_as_the_file_has_them() -> None:
    text = NAMED.replace("{hosts.a.cc: cubic}", "{hosts.a.cc: cubic, flows.f1.stop: 9s}")
    plan = load(text).plan()
    assert plan.keys[0] == "tuning"
    assert [run.cell["tuning"] for run in plan.runs] == ["vanilla"] * 2 + ["test 2"] * 2
    flows = [run.scenario["flows"][0] for run in plan.runs]
    assert [(flow["cc"], flow["stop_ns"]) for flow in flows] == [("newreno", None)] * 2 + [
        ("cubic", 9 * 10**9)
    ] * 2
    plain = [run.scenario_hash for run in load(malformed.GOOD, ["repeat=1"]).plan().runs]
    assert [run.scenario_hash for run in load(NAMED).plan().runs] == plain


def test_an_override_cuts_a_named_axis_to_a_level() -> None:
    assert values(NAMED, "tuning=test 2") == [("test 2", "2mbit", "1mbit"), ("test 2", "10mbit", "10mbit")]
    with pytest.raises(ExperimentError) as refused:
        load(NAMED, ["tuning=test 3"])
    assert str(refused.value) == (
        "--set tuning=test 3: tuning: found 'test 3'; expected one of vanilla, test 2"
        " (hint: did you mean test 2?)"
    )


def test_an_override_of_what_levels_set_leaves_those_that_have_it() -> None:
    assert {cell[0] for cell in values(NAMED, "hosts.a.cc=cubic")} == {"vanilla", "test 2"}
    assert {run.scenario["flows"][0]["cc"] for run in load(NAMED, ["hosts.a.cc=cubic"]).plan().runs} == {
        "cubic"
    }
    assert {cell[0] for cell in values(NAMED, "hosts.a.cc=htcp")} == {"vanilla"}
    both = NAMED.replace("vanilla: {}", "vanilla: {hosts.a.cc: newreno}")
    with pytest.raises(ExperimentError) as refused:
        load(both, ["hosts.a.cc=htcp"])
    assert str(refused.value) == (
        "--set hosts.a.cc=htcp: hosts.a.cc: found 'htcp'; expected one of tuning's values: newreno, cubic"
    )


def test_a_duration_cuts_the_stops_of_levels() -> None:
    text = NAMED.replace("{hosts.a.cc: cubic}", "{flows.f1.stop: 80s}")
    stops = [run.scenario["flows"][0]["stop_ns"] for run in load(text, ["duration=50s"]).plan().runs]
    assert stops == [None, None, 50 * 10**9, 50 * 10**9]


def test_the_last_override_wins() -> None:
    assert one(BASE, "duration=20s", "duration=30s").scenario["duration_ns"] == 30 * 10**9


@pytest.mark.parametrize("text", [malformed.GOOD, NAMED], ids=["keys", "levels"])
@pytest.mark.parametrize("overrides", [[], ["duration=20s", "hosts.a.cc=cubic"]])
def test_an_experiment_written_out_plans_the_same(text: str, overrides: list[str]) -> None:
    experiment = load(text, overrides)
    again = load(experiment.as_yaml())
    assert [run.scenario_hash for run in again.plan().runs] == [
        run.scenario_hash for run in experiment.plan().runs
    ]
    assert again.plan().keys == experiment.plan().keys
    assert again.as_yaml() == experiment.as_yaml()


def test_the_source_is_kept_as_read(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(BASE)
    experiment = load(file, ["duration=20s"])
    assert (experiment.source, experiment.name, experiment.file) == (BASE, "good", str(file))


def test_an_unknown_testbed_is_refused() -> None:
    with pytest.raises(InputError, match="testbed: 'simm' does not exist; did you mean sim"):
        load(BASE, testbed="simm")


def test_what_a_cell_costs_does_not_grow_with_its_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []
    copy = yaml_nodes.copy

    def counted(node: yaml_nodes.Node) -> yaml_nodes.Node:
        copied.append(node)
        return copy(node)

    def of_a_cell(cells: int) -> float:
        rates = ", ".join(f"{1000 + number}kbit" for number in range(cells))
        experiment = load(BASE + f"sweep: [{{network.dumbbell.bottleneck.rate: [{rates}]}}]\n")
        copied.clear()
        experiment.plan()
        return len(copied) / cells

    monkeypatch.setattr(yaml_nodes, "copy", counted)
    assert of_a_cell(200) < 1.5 * of_a_cell(100)
