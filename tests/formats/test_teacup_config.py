"""TEACUP configurations: what they become, that their runs are TEACUP's, that nothing in them is executed."""

import re
from pathlib import Path

import pytest
import yaml

import cwndlab
from cwndlab.errors import InputError
from cwndlab.experiment.scenario.queries import rate_of
from cwndlab.testbeds.ssh import lab_file
from cwndlab_teacup import config as teacup_config
from cwndlab_teacup import source as teacup_source
from cwndlab_teacup.config import convert

BASELINE = Path(__file__).parent / "teacup" / "baseline.py"


def changed(tmp_path: Path, *changes: tuple[str, str], name: str = "config.py") -> Path:
    """The baseline with some text replaced, each of which must be there."""
    text = BASELINE.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    file = tmp_path / name
    file.write_text(text)
    return file


def kinds(converted: teacup_config.Converted) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {kind: [] for kind in teacup_config.KINDS}
    for finding in converted.findings:
        found[finding.kind].append(f"{finding.place.line}: {finding.text}")
    return found


@pytest.mark.slow
def test_the_runs_are_teacups_under_its_names() -> None:
    converted = convert(BASELINE)
    plan = cwndlab.load(converted.experiment).plan()
    assert len(plan.runs) == len(converted.test_ids) == 2 * 3 * 7 * 3
    assert converted.test_ids[0] == "baseline_tcp_newreno_down_2mbit_up_2mbit_del_0_aqm_pfifo_bs_50_run_0"
    assert converted.test_ids[-1] == "baseline_tcp_cubic_down_10mbit_up_10mbit_del_100_aqm_pfifo_bs_180_run_0"
    assert len(set(converted.test_ids)) == len(converted.test_ids)
    # The order of the plan is TEACUP's too: the last parameter changes fastest.
    for run, test_id in zip(plan.runs, converted.test_ids, strict=True):
        tcp, rate, delay, limit = re.findall("_(?:tcp|down|del|bs)_([^_]+)", test_id)
        assert run.cell["hosts.newtcp20.cc"] == run.cell["hosts.newtcp27.cc"] == tcp
        assert run.cell["network.dumbbell.bottleneck.shaper.rate"] == rate
        assert run.cell["network.dumbbell.bottleneck.delay"] == f"{delay}ms"
        assert run.cell["network.dumbbell.bottleneck.queue.limit"] == f"{limit}p"
    first = plan.runs[0].scenario
    assert first["duration_ns"] == 90 * 10**9
    bottleneck = next(link for link in first["links"] if link["name"] == "bottleneck")
    assert (rate_of(bottleneck), bottleneck["delay_ns"]) == (2_000_000, 0)


@pytest.mark.slow
def test_the_machines_become_a_lab_file(tmp_path: Path) -> None:
    commands = "TPCONF_host_init_custom_cmds = {'newtcp20': ['echo a', 'echo b', 'echo V_delay']}\n"
    config = changed(tmp_path, ("TPCONF_host_init_custom_cmds = {}\n", commands))
    converted = convert(config)
    assert converted.lab is not None
    file = tmp_path / "lab.yaml"
    file.write_text(converted.lab)
    lab = lab_file.read(file)
    run = cwndlab.load(converted.experiment).plan().runs[0].scenario
    assert set(lab.hosts) == {host["name"] for host in run["hosts"]}
    assert lab.hosts["newtcp20"].ssh == "root@newtcp20"
    assert lab.hosts["newtcp20"].address == "172.16.10.3"
    assert lab.hosts["newtcp20"].before_run == []
    assert converted.lab.endswith("#   newtcp20: echo a\n#   newtcp20: echo b\n#   newtcp20: echo V_delay\n")
    assert "password" not in converted.lab
    (router,) = lab.routers.values()
    assert (
        set(router.links) == {"bottleneck", "bottleneck.reverse"} <= {link["name"] for link in run["links"]}
    )


@pytest.mark.slow
def test_everything_is_said_with_its_line() -> None:
    found = kinds(convert(BASELINE))
    lines = BASELINE.read_text().splitlines()
    assert "TPCONF_test_id" in lines[33]
    assert any(line.startswith("34: TPCONF_test_id") for line in found["mapped"])
    assert any(
        line.startswith("34: TPCONF_test_id: test IDs are given without") for line in found["approximated"]
    )
    assert any(line.startswith("25: host newtcp20: FreeBSD") for line in found["approximated"])
    assert any("TPCONF_debug_level" in line for line in found["dropped"])
    named = set(re.findall(r"^(TPCONF_\w+) =", BASELINE.read_text(), re.MULTILINE))
    said = " ".join(text for texts in found.values() for text in texts)
    assert {name for name in named if name not in said} == set()
    # The experiment file carries the list.
    assert "#   dropped      baseline.py:14  TPCONF_debug_level" in convert(BASELINE).experiment


def test_a_prefix_takes_the_place_of_the_date() -> None:
    converted = convert(BASELINE, prefix="20140502-153000_baseline")
    assert converted.test_ids[0].startswith("20140502-153000_baseline_tcp_newreno_down_")


def test_values_in_names_are_written_as_python_2_does(tmp_path: Path) -> None:
    file = changed(
        tmp_path,
        ("TPCONF_loss_rates = [0]", "TPCONF_loss_rates = [0, 0.001, 1.0 / 3]"),
        ("TPCONF_aqms = ['pfifo', ]", "TPCONF_aqms = ['pfifo', 'fq_codel']"),
        ("['tcpalgos', 'bandwidths', 'delays', 'aqms', 'bsizes', 'runs', ]", "['loss', 'aqms']"),
    )
    converted = convert(file)
    assert converted.test_ids == [
        f"baseline_loss_{loss}_aqm_{aqm}"
        for loss in ("0", "0.001", "0.333333333333")
        for aqm in ("pfifo", "fq-codel")
    ]
    assert len(cwndlab.load(converted.experiment).plan().runs) == 6


def test_variables_are_evaluated_for_each_run(tmp_path: Path) -> None:
    file = changed(
        tmp_path,
        (
            'delay=V_delay, "\n     " loss=V_loss, rate=V_up_rate',
            'delay=V_delay * 2 + 1, "\n     " loss=V_loss, rate=V_up_rate',
        ),
        ("['tcpalgos', 'bandwidths', 'delays', 'aqms', 'bsizes', 'runs', ]", "['delays']"),
    )
    converted = convert(file)
    plan = cwndlab.load(converted.experiment).plan()
    assert [run.cell["network.dumbbell.bottleneck.delay"] for run in plan.runs] == [
        f"{2 * delay + 1}ms" for delay in (0, 5, 10, 20, 40, 80, 100)
    ]
    assert plan.runs[3].cell["network.dumbbell.reverse.delay"] == "20ms"


def test_a_value_that_depends_on_two_parameters_is_swept_with_both(tmp_path: Path) -> None:
    file = changed(
        tmp_path,
        ("TPCONF_buffer_sizes = [50, 90, 180]", "TPCONF_buffer_sizes = ['bdp']"),
        ("TPCONF_delays = [0, 5, 10, 20, 40, 80, 100]", "TPCONF_delays = [20, 40]"),
    )
    converted = convert(file)
    plan = cwndlab.load(converted.experiment).plan()
    assert len(plan.runs) == len(converted.test_ids) == 2 * 3 * 2
    limits = {
        (
            run.cell["network.dumbbell.bottleneck.shaper.rate"],
            run.cell["network.dumbbell.bottleneck.delay"],
        ): run.cell["network.dumbbell.bottleneck.queue.limit"]
        for run in plan.runs
    }
    # TEACUP's own sum: rate * RTT in packets of 600 bytes, whole ones.
    assert limits["2mbit", "20ms"] == "16p"
    assert limits["10mbit", "40ms"] == "166p"


def test_parameters_without_an_effect_are_repeats(tmp_path: Path) -> None:
    file = changed(
        tmp_path, ("TPCONF_runs = 1", "TPCONF_runs = 4"), ("'aqms', 'bsizes', 'runs', ]", "'runs']")
    )
    converted = convert(file)
    plan = cwndlab.load(converted.experiment).plan()
    assert plan.repeat == 4 and len(plan.runs) == len(converted.test_ids) == 2 * 3 * 7 * 4
    assert converted.test_ids[1].endswith("_del_0_run_1")


def test_hosts_settings_and_generators(tmp_path: Path) -> None:
    file = changed(
        tmp_path,
        ("'newtcp27': 'FreeBSD'", "'newtcp27': 'Linux'"),
        (
            "TPCONF_host_TCP_algos = {}",
            "TPCONF_host_TCP_algos = {'newtcp20': ['newreno', 'cubic'], 'newtcp27': ['cubic']}",
        ),
        ("TPCONF_TCP_algos = ['newreno', 'cubic', ]", "TPCONF_TCP_algos = ['host1', 'default']"),
        (
            "TPCONF_host_TCP_algo_params = {}",
            "TPCONF_host_TCP_algo_params = {'newtcp20': {'cubic': ["
            "'net.inet.tcp.abc_l_var = V_delay + 2', 'no.such=1']}}",
        ),
        ("['tcpalgos', 'bandwidths', 'delays', 'aqms', 'bsizes', 'runs', ]", "['tcpalgos']"),
        (
            "traffic_iperf = [",
            "traffic_iperf = [\n"
            "    (2.5, 7, \"start_ping, client='172.16.10.3', dest='newtcp27', rate=10\"),\n"
            "    ('1', '8', \"start_nttcp, client='newtcp20', server='newtcp27', port=9,\"\n"
            '     " interval=20, psize=200"),\n'
            "    ('0', '9', \" create_http_dash_content, server='newtcp20' \"),",
        ),
        ("[\n    ('1', \" source", "{'newtcprt3': [\n    ('1', \" source"),
        ('queue_size=V_bsize "),\n]', "queue_size=V_bsize, queue_disc_params='' \"),\n]}"),
    )
    converted = convert(file)
    plan = cwndlab.load(converted.experiment).plan()
    first, second = (run.scenario for run in plan.runs)
    hosts = {host["name"]: host for host in first["hosts"]}
    assert (hosts["newtcp20"]["stack"], hosts["newtcp27"]["stack"]) == ("freebsd-9.2", "linux-3.9")
    assert plan.runs[0].cell["hosts.newtcp20.cc"] == "cubic"
    assert plan.runs[1].cell["hosts.newtcp20.cc"] == "newreno"
    assert "hosts.newtcp27.cc" not in plan.keys, "cubic in both: what it has only one of, and its default"
    assert {flow["name"] for flow in first["flows"]} == {"f1", "f7", "f8"}
    assert hosts["newtcp20"]["sysctl"]["net.inet.tcp.abc_l_var"] == 2
    assert {host["name"]: host for host in second["hosts"]}["newtcp20"]["sysctl"] != hosts["newtcp20"][
        "sysctl"
    ]
    said = kinds(converted)
    assert any("no.such" in line for line in said["dropped"])
    assert any("create_http_dash_content" in line for line in said["dropped"])


def test_files_beside_it_are_read_in_place(tmp_path: Path) -> None:
    text = BASELINE.read_text()
    start, end = text.index("TPCONF_router = "), text.index("TPCONF_max_time_diff")
    (tmp_path / "nodes.py").write_text(text[start:end])
    file = tmp_path / "config.py"
    file.write_text(text[:start] + "execfile('nodes.py')\n" + text[end:])
    converted = convert(file)
    assert converted.test_ids == convert(BASELINE).test_ids
    assert any(finding.place.file.endswith("nodes.py") for finding in converted.findings)


def test_values_are_computed_as_python_does(tmp_path: Path) -> None:
    """What TEACUP's example configurations are written with."""
    file = tmp_path / "config.py"
    file.write_text(
        "env.password = 'secret'\nenv.pool = [1, 2]\n"
        "rates = [500, 1000, 2000]\n"
        "a = env.password\n"
        "b = ','.join(map(str, rates))\n"
        "c = ','.join(str(x) for x in rates)\n"
        "d = [2 * x + y for x in rates[:2] for y in (0, 1) if x != 500 or y == 1]\n"
        "e = range(0, 10, 3)[1:]\n"
        "f = 'abcdef'[::2]\n"
        "g = [name for name, rate in [('a', 1), ('b', 2)] if not rate in [1]]\n"
        "h = [x for x in range(3)] + list((7, 8)) + env.pool\n"
        "i = ','.join(['%s.%d' % (x, len(rates)) for x in 'ab'])\n"
        "x = 'outside'\nj = [x for x in [1]] + [x]\n"
        "rates2 = {}\nrates2['k'] = [float(x) / 3 for x in rates[-1:]]\n"
    )
    names: dict[str, object] = {}
    text = file.read_text().replace("env.password", "env_password").replace("env.pool", "env_pool")
    exec(text, names)  # Python itself is the judge of our own text
    source = teacup_source.read(file)
    for name in "abcdefghij":
        value = names[name]
        assert source.get(name) == (list(value) if isinstance(value, range) else value), name
    assert source.get("rates2") == names["rates2"]


def test_an_option_cuts_the_flows_of_an_imported_file(tmp_path: Path) -> None:
    file = changed(
        tmp_path, ("['tcpalgos', 'bandwidths', 'delays', 'aqms', 'bsizes', 'runs', ]", "['delays']")
    )
    text = convert(file).experiment
    assert "stop: 90s" in text
    plan = cwndlab.load(text, ["duration=10s"]).plan()
    assert {flow["stop_ns"] for run in plan.runs for flow in run.scenario["flows"]} == {10**10}
    assert plan.runs[0].notes[0] == "flow f1 is cut: it stops at the end, 10s, and not at 90s"
    # What is written beside the results runs again.
    again = cwndlab.load(cwndlab.load(text, ["duration=10s"]).as_yaml()).plan()
    assert [run.scenario_hash for run in again.runs] == [run.scenario_hash for run in plan.runs]
    with pytest.raises(InputError, match="within the duration"):
        cwndlab.load(text.replace("duration: 90s", "duration: 10s"))
    with pytest.raises(InputError, match="within the duration"):
        cwndlab.load(text, ["duration=10s", "flows.f1.stop=20s"])
    late = text.replace("flows:\n", "flows:\n- {name: f9, from: newtcp20, to: newtcp27, start: 20s}\n")
    run = cwndlab.load(late, ["duration=10s"]).plan().runs[0]
    assert "flow f9 is left out: it would start when the run is over" in run.notes
    assert [flow["name"] for flow in run.scenario["flows"]] == ["f1"]
    with pytest.raises(InputError, match="within the duration"):
        cwndlab.load(text.replace("start: 0s", "start: 20s"), ["duration=10s"])


def test_the_bottleneck_is_the_direction_the_data_take(tmp_path: Path) -> None:
    text = BASELINE.read_text()
    ends = re.search(r"client='(\w+)', server='(\w+)'", text)
    assert ends is not None
    turned = text.replace(ends[0], f"client='{ends[2]}', server='{ends[1]}'")
    turned = turned.replace("('2mbit', '2mbit')", "('2mbit', '1mbit')")
    assert turned != text
    file = tmp_path / "config.py"
    file.write_text(turned)
    run = cwndlab.load(convert(file).experiment).plan().runs[0]
    # Both flows go to where pipe 2 leads, which has the downstream rate.
    assert run.cell["network.dumbbell.bottleneck.shaper.rate"] == "2mbit"
    assert run.cell["network.dumbbell.reverse.shaper.rate"] == "1mbit"
    links = {link["name"]: link for link in run.scenario["links"]}
    assert rate_of(links["bottleneck"]) == 2_000_000


def test_an_incast_is_one_flow_of_all_who_answer(tmp_path: Path) -> None:
    file = changed(
        tmp_path,
        ("TPCONF_hosts = ['newtcp20', 'newtcp27', ]", "TPCONF_hosts = ['newtcp20', 'newtcp27', 'newtcp28']"),
        ("    'newtcp27': ['172.16.11.2'],", "    'newtcp27': ['172.16.11.2'], 'newtcp28': ['172.16.11.3'],"),
        ("TPCONF_runs = 1", "TPCONF_runs = 1\nsizes = [8, 64]"),
        (
            "TPCONF_parameter_list = {",
            "TPCONF_parameter_list = {\n    'sizes': (['V_size'], ['sz'], sizes, {}),",
        ),
        ("['tcpalgos', 'bandwidths', 'delays', 'aqms', 'bsizes', 'runs', ]", "['sizes']"),
    )
    text = file.read_text()
    start = text.index("traffic_iperf = [")
    file.write_text(
        text[:start] + "traffic_iperf = [('0.0', '1', \" start_http_server, server='newtcp27', port=80 \"),\n"
        "    ('1.0', '2', \" start_httperf_incast, client='newtcp20', servers='newtcp27:80, newtcp28:80',"
        ' duration=30, period=10, response_size=V_size")]\n' + text[text.index("TPCONF_traffic_gens") :]
    )
    converted = convert(file)
    runs = cwndlab.load(converted.experiment).plan().runs
    assert [run.cell for run in runs] == [{"flows.f2.app.size": "8KiB"}, {"flows.f2.app.size": "64KiB"}]
    flows = runs[0].scenario["flows"]
    assert [(flow["from"], flow["to"]) for flow in flows] == [
        ("newtcp27.1", "newtcp20"),
        ("newtcp27.2", "newtcp20"),
    ]
    assert flows[0]["app"]["kind"] == "incast" and flows[0]["app"]["size_bytes"] == 8192
    said = kinds(converted)
    assert any("2 copies of newtcp27 answer" in line for line in said["approximated"])
    assert any("start_http_server" in line for line in said["dropped"])


def test_commands_that_are_dropped_are_listed(tmp_path: Path) -> None:
    file = changed(
        tmp_path,
        (
            "TPCONF_host_init_custom_cmds = {}\n",
            "TPCONF_host_init_custom_cmds = {\n    'newtcp20': [\n"
            "        'sysctl net.inet.tcp.sack.enable=V_delay',\n        'touch \x1b[31mx'],\n}\n",
        ),
    )
    line = file.read_text().splitlines().index("        'sysctl net.inet.tcp.sack.enable=V_delay',") + 1
    found = kinds(convert(file))["dropped"]
    said = "a command on host newtcp20, a comment in the lab file: sysctl net.inet.tcp.sack.enable=V_delay"
    assert f"{line}: {said}" in found
    assert f"{line - 2}: TPCONF_host_init_custom_cmds: comments in the lab file" in found
    printed = "\n".join(teacup_config.as_text_list(convert(file).findings))
    assert "\x1b" not in printed and r"touch \x1b[31mx" in printed
    converted = convert(file)
    assert "\x1b" not in converted.experiment + str(converted.lab)


LEFT = "touched"
CODE = f"__import__('os').system('touch {LEFT}')"


@pytest.mark.parametrize(
    ("line", "column", "told"),
    [
        (f"x = {CODE}", 5, "a call"),
        (CODE, 1, "a call"),
        (f"x = [1, 2, {CODE}]", 12, "a call"),
        (f"x = {{'a': {{'b': ({CODE},)}}}}", 18, "a call"),
        ("x = open('f').read()", 5, "a call"),
        ("import os.path", 1, "import"),
        ("from os import system", 1, "import"),
        ("import os as datetime", 1, "import"),
        (f"if 1: x = {CODE}", 1, "if"),
        ("for x in range(3): pass", 1, "for"),
        ("def f(): pass", 1, "a function"),
        ("x = lambda: 1", 5, "lambda"),
        (f"x = [{CODE} for y in range(3)]", 6, "a call"),
        (f"x = [y for y in {CODE}]", 17, "a call"),
        (f"x = [y for y in range(3) if {CODE}]", 29, "a call"),
        ("x = {y: y for y in range(3)}", 5, "a comprehension"),
        ("x = [y for y in range(3)][y]", 27, "has no value"),
        ("x = [y for y, z in [1]]", 12, "a name for each value"),
        ("x = [a for a in range(60000) for b in range(60000)]", 39, "may make"),
        ("x = [[0] * 60000 for y in range(60000)]", 6, "may make"),
        ("x = str([[0] * 60000, [0] * 60000])", 9, "more than 65536"),
        ("x = f'{1}'", 5, "an f-string"),
        ("x = 'a'.join([1])", 5, "only texts are joined"),
        ("x = 'a'.upper()", 5, "a call"),
        ("x = map(eval, ['1'])", 5, "a call"),
        ("x = map(str, 1)", 14, "a list is expected"),
        ("x = range(9)[1:'a']", 5, "whole numbers"),
        ("x = range(9)[::0]", 5, "no step of 0"),
        ("x = 5[1:2]", 5, "a slice of"),
        ("x = env.unset", 5, "the name 'env.unset' has no value"),
        ("x = sys.path", 5, "an attribute"),
        ("x = env.password.__class__", 5, "an attribute"),
        (f"sys.path.append({CODE})", 1, "a call"),
        (f"TPCONF_hosts[{CODE}] = 1", 1, "no dictionary"),
        ("execfile('../other.py')", 1, "only a file in the same directory"),
        ("execfile('/etc/passwd')", 1, "only a file in the same directory"),
        ("execfile('missing.py')", 1, "there is no such file"),
        ("execfile('config.py')", 1, "the file reads itself"),
        ("x = 10 ** 1000000", 5, "cannot compute"),
        ("x = 'a' * 1000000000", 5, "more than 65536"),
        ("x = [[0] * 1000] * 100000000", 5, "more than 65536"),
        ("x = range(10 ** 9)", 11, "cannot compute"),
        ("x = range(1000000000)", 5, "more than 65536"),
        ("x = 1 / 0", 5, "zero"),
        ("print 'x'", 1, "not a TEACUP configuration"),
        ("x = unknown", 5, "has no value"),
        ("x = " + "+".join(["1"] * 5000), 1, "too deeply"),
        ("x: int = 1", 1, "a AnnAssign"),
        ("x = [*range(3)]", 6, "a Starred"),
        ("x = 1 if 2 else 3", 5, "if"),
        ("x += 1", 1, "an assignment in place"),
        ("x = y = 1", 1, "a Assign"),
        ("x = (y := 1)", 6, "a NamedExpr"),
        ("del TPCONF_hosts", 1, "del"),
        ("@property\nclass A: pass", 1, "a class"),
    ],
)
@pytest.mark.slow
def test_code_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, column: int, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = changed(tmp_path, ("TPCONF_duration = 90\n", f"TPCONF_duration = 90\n{line}\n"))
    number = file.read_text().splitlines().index(line.splitlines()[0]) + 1
    with pytest.raises(InputError) as refused:
        convert(Path("config.py"))
    message = str(refused.value)
    place = message.split(": ", maxsplit=1)[0].split(":")
    assert place[0] == "config.py" and told in message
    if "too deeply" in message:
        return  # Python does not say where
    # The statement begins there; Python itself says where a line that is none goes wrong.
    assert abs(int(place[1]) - number) <= 1
    if "not a TEACUP" not in message and "class" not in message:
        assert (int(place[1]), int(place[2])) == (number, column)
    assert not (tmp_path / LEFT).exists()


@pytest.mark.parametrize(
    ("parameter", "told"),
    [
        (f"duration={CODE}", "code is not executed"),
        ("duration=(lambda: 9)()", "code is not executed"),
        ("duration=[__import__('os') for x in (1,)][0]", "code is not executed"),
        ("duration=[x for x in range(9999)][0]", "may make"),
        ("**{'duration': 9}", "only NAME=VALUE"),
        ("duration=V_unknown", "has no value"),
        ("duration=1) or __import__('os').system('touch touched'", "not a list of parameters"),
        ("duration='90'.upper()", "code is not executed"),
        ("duration=9 ** 99", "cannot compute"),
    ],
)
def test_code_in_parameter_strings_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameter: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = changed(tmp_path, ("duration=V_duration", parameter))
    with pytest.raises(InputError) as refused:
        convert(Path("config.py"))
    message = str(refused.value)
    assert told in message
    _, line, column = message.split(": ", maxsplit=1)[0].split(":")
    text = file.read_text().splitlines()[int(line) - 1]
    if "not a list" not in message:
        assert parameter in text, "the line of the string is named, not that of the list"
        assert text.index(parameter) < int(column) <= text.index(parameter) + len(parameter) + 1
    assert not (tmp_path / LEFT).exists()


def test_a_refused_configuration_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cwndlab.formats import importers

    monkeypatch.chdir(tmp_path)
    changed(tmp_path, ("TPCONF_duration = 90", f"TPCONF_duration = {CODE}"))
    with pytest.raises(InputError):
        importers.configuration(Path("config.py"), Path("out.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["config.py"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("client='newtcp20'", "client='newtcp2'", "is none of TPCONF_hosts; did you mean"),
        ("rate=V_up_rate", "rate='fast'", "is no rate"),
        ("delay=V_delay", "delay='long'", "is no number"),
        ("TPCONF_loss_rates = [0]", "TPCONF_loss_rates = [2]", "from 0 to 1"),
        ("'bsizes', 'runs', ]", "'buffers', ]", "is not in TPCONF_parameter_list"),
        ("TPCONF_delays = [0, 5, 10, 20, 40, 80, 100]", "TPCONF_delays = []", "has no element"),
        ("TPCONF_runs = 1", "TPCONF_runs = 60000", "runs are more than"),
        ("TPCONF_hosts = ", "TPCONF_guests = ", "TPCONF_hosts is not set"),
        (
            "source='172.16.10.0/24', dest='172.16.11.0/24'",
            "source='10.0.0.0/8', dest='10.0.0.0/8'",
            "hosts with traffic are newtcp20 (172.16.10.3), newtcp27 (172.16.11.2); "
            "looked for one at each end of 10.0.0.0/8 to 10.0.0.0/8",
        ),
        ("    'newtcp27': ['172.16.11.2'],", "", "newtcp27 (no address in TPCONF_host_internal_ip)"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    file = changed(tmp_path, (old, new))
    if "10.0.0.0/8" in new:
        file.write_text(
            file.read_text().replace(
                "source='172.16.11.0/24', dest='172.16.10.0/24'", "source='10.0.0.0/8', dest='10.0.0.0/8'"
            )
        )
    with pytest.raises(InputError, match=re.escape(told)) as refused:
        convert(file)
    assert "\n" not in str(refused.value)


SECOND_ROUTER = """
TPCONF_router = ['newtcprt3', 'newtcprt2', 'idle']
TPCONF_hosts = ['newtcp20', 'newtcp27', 'newtcp30', 'newtcp31']
TPCONF_host_internal_ip['newtcp30'] = ['172.16.12.3']
TPCONF_host_internal_ip['newtcp31'] = ['172.16.13.2']
TPCONF_host_os['newtcprt2'] = 'FreeBSD'
first_queues = TPCONF_router_queues
TPCONF_router_queues = {}
TPCONF_router_queues['newtcprt3'] = first_queues
TPCONF_router_queues['newtcprt2'] = [
    ('1', "source='172.16.12.0/24', dest='172.16.13.0/24', delay=2, rate=V_up_rate, bidir='1'"),
]
TPCONF_router_queues['idle'] = [("1", "source='10.1.0.0/16', dest='10.2.0.0/16', rate='1mbit'")]
TPCONF_traffic_gens = traffic_iperf + [
    ('0.0', '2', " start_iperf, client='newtcp30', server='newtcp31', port=5000, duration=V_duration "),
]
"""


@pytest.mark.slow
def test_several_routers_are_links_of_their_own(tmp_path: Path) -> None:
    config = changed(tmp_path)
    config.write_text(config.read_text() + SECOND_ROUTER)
    converted = convert(config)
    plan = cwndlab.load(converted.experiment).plan()
    assert len(plan.runs) == len(converted.test_ids) == 2 * 3 * 7 * 3
    for run, test_id in zip(plan.runs, converted.test_ids, strict=True):
        rate, delay, limit = re.findall("_(?:up|del|bs)_([^_]+)", test_id)
        links = {link["name"]: link for link in run.scenario["links"]}
        mbit, ms = int(rate.removesuffix("mbit")) * 10**6, 10**6
        for way in ("", ".reverse"):
            near, far = links[f"newtcprt3{way}"], links[f"newtcprt2{way}"]
            assert (rate_of(near), near["delay_ns"]) == (mbit, int(delay) * ms)
            assert near["queue"]["limit_packets"] == int(limit) and near["overhead"] == 14
            # Dummynet counts no Ethernet header.
            assert (rate_of(far), far["delay_ns"], far["overhead"]) == (mbit, 2 * ms, 0)
    assert "router idle: without traffic" in " ".join(kinds(converted)["dropped"])
    assert converted.lab is not None
    routers = yaml.safe_load(converted.lab)["routers"]
    assert {name: list(router["links"]) for name, router in routers.items()} == {
        name: [name, f"{name}.reverse"] for name in ("newtcprt3", "newtcprt2")
    }


def test_a_host_behind_two_routers_is_refused(tmp_path: Path) -> None:
    config = changed(tmp_path)
    both = SECOND_ROUTER.replace("172.16.12.0/24", "172.16.10.0/24").replace(
        "172.16.13.0/24", "172.16.11.0/24"
    )
    config.write_text(config.read_text() + both)
    with pytest.raises(InputError, match="host newtcp20 is behind two routers"):
        convert(config)


def test_texts_of_variables_are_not_spliced(tmp_path: Path) -> None:
    """A value that looks like code stays a value."""
    text = "1) or __import__('os').system('x') or (1"
    positional, named = teacup_source.arguments(
        "start_iperf, a=V_x, b=V_a-b + 1, c='V_x'", {"V_x": text, "V_a-b": 2}, teacup_source.Place("f", 1, 1)
    )
    assert (positional, named) == (["start_iperf"], {"a": text, "b": 3, "c": "V_x"})
