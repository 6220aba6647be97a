"""FreeBSD hosts and routers of testbed ssh, against a stand-in that answers as the manual pages have it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cwndlab
from cwndlab.testbeds.live.addresses import Addresses, Ends
from cwndlab.testbeds.live.freebsd import commands, dummynet, kernel, rules, system
from cwndlab.testbeds.live.freebsd.shell import ByShell
from cwndlab.testbeds.live.observation import counters, snapshot
from cwndlab.testbeds.live.shell import NOW
from cwndlab.testbeds.ssh import stacks
from cwndlab.testbeds.ssh.machines import machine
from cwndlab.testbeds.ssh.machines.machine import Clock
from cwndlab.testbeds.ssh.machines.platforms import Driven, driven
from cwndlab.testbeds.ssh.observation import sampler, siftr
from cwndlab.testbeds.ssh.traffic import tool_reports, tools
from experiments import dumbbell
from freebsd_stand_in import StandIn


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    made = StandIn(tmp_path)
    made.take()
    return made


@pytest.fixture
def found(stand_in: StandIn) -> Driven:
    return driven(stand_in)


def scenario(**keys: Any) -> Any:
    keys = {"a": "stack: freebsd-13", "bottleneck": "rate: 10mbit, delay: 20ms", **keys}
    return cwndlab.load(dumbbell("x", duration="2s", **keys)).plan().runs[0].scenario


def host(**changes: Any) -> Any:
    nic = {"tso": False, "gro": False, "lro": False, "coalesce": None}
    given = {"name": "a", "stack": "freebsd-14.1", "ecn": "off", "sysctl": {}, "nic": nic, "ingress": {}}
    return {**given, **changes}


def flow(cc: str, **changes: Any) -> Any:
    app = {"kind": "bulk", "bytes": None}
    return {
        "name": "f1",
        "from": "a",
        "to": "b",
        "cc": cc,
        "sndbuf": None,
        "rcvbuf": None,
        "app": app,
        **changes,
    }


def test_a_kernel_is_known_by_its_sysctls_and_modules(found: Driven) -> None:
    own = found.kernel
    assert isinstance(own, kernel.Kernel)
    assert own.stack == "freebsd-14.1"
    assert own.stacks == ("freebsd-14.1", "freebsd-14.1/rack", "freebsd-14", "freebsd-14/rack", "freebsd")
    assert own.congestion_controls == ("cubic", "newreno", "htcp")
    assert (own.loaded, own.loaded_functions, own.hz) == (("cubic", "newreno"), ("freebsd",), 1000)
    assert own.sysctls["net.inet.tcp.sendspace"] == "32768"
    assert not any("psk_key" in name or name == "kern.hz" for name in own.sysctls)
    assert own.has("net.inet.tcp.cc.htcp.rtt_scaling"), "once its module is loaded"
    assert not own.has("net.inet.tcp.cc.vegas.alpha")
    assert (found.siftr, found.link_program, found.asks_sockets) == ("siftr", "ipfw", False)


@pytest.mark.parametrize(
    ("release", "stack"),
    [
        ("15.0-CURRENT", "freebsd-15-current"),
        ("9.2-RELEASE-p10", "freebsd-9.2"),
        ("13.3-STABLE", "freebsd-13.3"),
    ],
)
def test_stacks_have_the_names_of_the_models(release: str, stack: str, tmp_path: Path) -> None:
    assert driven(StandIn(tmp_path, release)).kernel.stack == stack


def test_an_old_kernel_lists_its_congestion_controls_in_a_line(stand_in: StandIn) -> None:
    stand_in.sysctl("net.inet.tcp.cc.available").write_text("newreno, cubic")
    stand_in.sysctl("net.inet.tcp.functions_available").unlink()
    own = kernel.read(stand_in, "11.4-RELEASE")
    assert (own.loaded, own.loaded_functions) == (("newreno", "cubic"), ("freebsd",))


def test_an_experiment_knows_what_the_machines_have(found: Driven) -> None:
    known = stacks.known([found.catalogue])
    stack = known.stack("freebsd")
    assert stack is not None
    assert (stack.name, stack.default_cc, stack.ecn, stack.hz) == ("freebsd-14.1", "cubic", "accept", 1000)
    assert stack.sysctls["net.inet.tcp.cc.htcp.rtt_scaling"].default == 0
    assert "net.inet.tcp.functions_available" not in stack.sysctls
    assert known.stack("freebsd-14/rack") is not None


def test_a_host_is_set_and_given_back(stand_in: StandIn, found: Driven) -> None:
    before = stand_in.now()
    wanted = host(stack="freebsd-14.1/rack", sysctl={"net.inet.tcp.cc.htcp.rtt_scaling": 1})
    flows = [flow("htcp", sndbuf=4_000_000)]
    sysctls = found.system.sysctls(wanted, flows)
    assert sysctls == {
        "net.inet.tcp.hostcache.enable": "0",
        "net.inet.tcp.ecn.enable": "0",
        "net.inet.tcp.cc.algorithm": "htcp",
        "net.inet.tcp.functions_default": "rack",
        "kern.ipc.maxsockbuf": "4500000",
        "net.inet.tcp.cc.htcp.rtt_scaling": "1",
    }
    found.system.load(found.reach, wanted, flows)
    found.system.configure(found.reach, sysctls)
    found.system.set_interface(found.reach, "em1", wanted["nic"])
    assert stand_in.log == [
        "kldload cc_htcp",
        "kldload tcp_rack",
        *(f"sysctl {name}={value}" for name, value in sysctls.items()),
        "ifconfig em1 -tso -lro",
    ]
    assert stand_in.restore() == ""
    after = stand_in.now()
    # Modules stay, with their sysctls; everything else is as it was.
    assert {name: text for name, text in after.items() if name in before and "available" not in name} == {
        name: text for name, text in before.items() if "available" not in name
    }
    assert [name for name in after if name.startswith("loaded/")] == ["loaded/cc_htcp", "loaded/tcp_rack"]


def test_congestion_controls_that_are_not_loaded_are(stand_in: StandIn) -> None:
    stand_in.sysctl("net.inet.tcp.cc.available").write_text(
        "\nCCmod           D PCB count\ncubic           * 5\n"
    )
    (stand_in.state / "kernel" / "cc_newreno.ko").touch()
    found = driven(stand_in)
    flows = [flow("cubic"), flow("htcp")]
    found.system.load(found.reach, host(), flows)
    assert stand_in.log == ["kldload cc_htcp", "kldload cc_newreno"]
    assert found.system.sysctls(host(), flows)["net.inet.tcp.cc.algorithm"] == "newreno"
    assert "net.inet.tcp.cc.algorithm" not in found.system.sysctls(host(name="b"), flows)


def test_what_a_kernel_refuses_is_said_with_its_words(found: Driven) -> None:
    message = r"refuses net.inet.tcp.cc.algorithm = vegas \(.*No such process\)"
    with pytest.raises(ValueError, match=message):
        found.system.configure(found.reach, {"net.inet.tcp.cc.algorithm": "vegas"})
    with pytest.raises(OSError, match="can't load cc_vegas"):
        found.system.load(found.reach, host(), [flow("vegas")])


STAGE = {"dport": 5201, "sport": None, "min_payload": 100, "duplicate_ppb": 0, "corrupt_ppb": 0}


def test_what_comes_in_is_dropped_at_random(found: Driven, stand_in: StandIn) -> None:
    loss = {"kind": "random", "probability_ppb": 10_000_000}
    lossy = host(name="b", ingress={"before_gro": None, "after_gro": {**STAGE, "loss": loss}})
    ends = Ends("f1", "a", "b", "10.0.1.1", "10.0.2.1", 10_000, 5202)
    before = stand_in.now()
    rules.check(lossy)
    found.system.set_rules(found.reach, lossy, Addresses({"b": "10.0.2.1"}, {"f1": ends}))
    assert stand_in.log == [
        "kenv net.inet.ip.fw.default_to_accept=1",
        "kldload ipfw",
        "ipfw add 11 prob 0.010000000 deny tcp from any to 10.0.2.1 5201,5202 in iplen 152-65535",
        "ipfw add 12 prob 0.010000000 deny udp from any to 10.0.2.1 5201,5202 in iplen 128-65535",
    ]
    assert isinstance(found.reach, ByShell)
    refusal = rules.refusal(found.reach)
    assert refusal is not None and refusal.startswith("ipfw has rules already (0011 prob")
    assert stand_in.restore() == ""
    assert stand_in.now() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"loss": {"kind": "nth", "every": 9}},
            "ipfw drops at random and counts nothing: loss is random, not nth",
        ),
        ({"loss": None, "corrupt_ppb": 1}, "host a: ingress.after_gro: ipfw cannot corrupt packets"),
    ],
)
def test_what_ipfw_cannot_do_to_what_comes_in_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rules.check(host(ingress={"before_gro": None, "after_gro": {**STAGE, **changes}}))


def test_connections_learn_nothing_unless_the_file_says_so(stand_in: StandIn) -> None:
    cache = "net.inet.tcp.hostcache.enable"
    here = kernel.read(stand_in, "14.1-RELEASE")
    assert here.sysctls[cache] == "1"
    assert {stack.sysctls[cache].default for stack in kernel.known(here).stacks.values()} == {0}
    own = system.FreeBSD(here)
    assert own.sysctls(host(), [flow("newreno")])[cache] == "0"
    assert own.sysctls(host(sysctl={cache: 1}), [flow("newreno")])[cache] == "1"


def test_an_old_kernel_forgets_its_host_cache_soon(stand_in: StandIn) -> None:
    stand_in.sysctl("net.inet.tcp.hostcache.enable").unlink()
    stand_in.sysctl("net.inet.tcp.hostcache.expire").write_text("3600")
    stand_in.sysctl("net.inet.tcp.hostcache.prune").write_text("300")
    stand_in.sysctl("net.inet.tcp.functions_default").unlink()
    own = system.FreeBSD(kernel.read(stand_in, "12.4-RELEASE"))
    assert own.sysctls(host(), [flow("newreno"), flow("cubic")]) == {
        "net.inet.tcp.hostcache.expire": "1",
        "net.inet.tcp.hostcache.prune": "1",
        "net.inet.tcp.ecn.enable": "0",
        "net.inet.tcp.cc.algorithm": "newreno",
    }


def test_offloads_are_switched_where_the_interface_is_able_to(stand_in: StandIn, found: Driven) -> None:
    found.reach.set_offloads("em1", tso=True, gro=True)
    assert stand_in.log == [], "all are on"
    stand_in.interface("em1", "10.0.1.1", "RXCSUM VLAN_MTU", "RXCSUM,TXCSUM,TSO4")
    found.reach.set_offloads("em1", tso=True, gro=True)
    assert stand_in.log == ["ifconfig em1 txcsum tso"], "it has no LRO"
    assert stand_in.restore() == ""
    assert stand_in.log[1:] == ["ifconfig em1 -tso -txcsum"]
    with pytest.raises(OSError, match="no interface em7; em1, lo0"):
        found.reach.set_offloads("em7", tso=True, gro=True)


def test_what_a_machine_is_set_to_is_kept(stand_in: StandIn, found: Driven) -> None:
    settings = found.system.settings(found.reach)
    assert settings["sysctls"]["net.inet.tcp.cc.algorithm"] == "cubic"
    assert settings["interfaces"]["em1"] == {
        "mtu": 1500,
        "tx_queue": 0,
        "offloads": ["lro", "rxcsum", "tso4", "txcsum"],
        "qdiscs": [],
    }
    found.reach.run(commands.load("siftr"))
    assert found.system.machine(found.reach, {}) == {
        "uname": "FreeBSD f 14.1-RELEASE-p5 FreeBSD 14.1-RELEASE-p5 #0: GENERIC amd64",
        "cpu": {"model": "Intel(R) Xeon(R) E-2236 CPU @ 3.40GHz", "online": "2", "frequency_mhz": 3400.0},
        "clock": {
            "synchronised": True,
            "offset_ns": -412345,
            "frequency_ppm": 12.345,
            "estimated_error_us": 21456,
            "source": "TSC-low",
        },
        "kernel": {"hz": "1000", "file": "/boot/kernel/kernel", "boot_environment": "patched"},
        "modules": {"kernel": "loaded", "siftr.ko": "loaded"},
        "sysctls": {},
    }
    kept = snapshot.Snapshot({"f": found}, {"f": found}, own_changes=False)
    stand_in.sysctl("net.inet.tcp.sendspace").write_text("65536")
    (change,) = kept.changes()
    assert str(change) == (
        "net.inet.tcp.sendspace of f changed during the run: '32768' before, '65536' after"
    )


QUEUES = [
    ("{kind: pfifo, limit: 90p}", "queue 90"),
    ("{kind: bfifo, limit: 30KB}", "queue 30000bytes"),
    ("{kind: codel, limit: 100p, ecn: true}", "queue 100 codel target 5000us interval 100000us ecn"),
    (
        "{kind: pie, limit: 100p}",
        "queue 100 pie target 15000us tupdate 15000us alpha 0.125 beta 1.25 noecn ts",
    ),
    (
        "{kind: red, limit: 60KB, min: 15KB, max: 45KB, burst: 20p, avpkt: 1000B, probability: 10%}",
        "queue 60000bytes red 0.125000000/15000/45000/0.100000000",
    ),
]
FAIR = [
    (
        "{kind: fq_codel, limit: 1000p, flows: 64}",
        "fq_codel target 5000us interval 100000us ecn quantum 1500 limit 1000 flows 64",
    ),
    (
        "{kind: fq_pie, limit: 1000p, flows: 64}",
        "fq_pie target 15000us tupdate 15000us alpha 0.125 beta 1.25 max_ecnth 0.1 noecn ts"
        " quantum 1500 limit 1000 flows 64",
    ),
]


def link(queue: str, more: str = "overhead: 0") -> Any:
    made = scenario(bottleneck=f"rate: 10mbit, delay: 20ms, queue: {queue}, {more}")
    return next(each for each in made["links"] if each["name"] == "bottleneck")


@pytest.mark.parametrize(("queue", "words"), QUEUES)
def test_a_pipe_is_told_its_queue(queue: str, words: str) -> None:
    pipe, found = dummynet.words(link(queue, "overhead: 0, loss: {random: 1%}"))
    assert " ".join(pipe) == "bw 10000000bit/s delay 20 plr 0.010000000"
    assert " ".join(found) == words


def test_red_that_dummynet_has_not_is_refused() -> None:
    red = link("{kind: red, limit: 60KB, min: 15KB, max: 45KB, burst: 20p, nonlinear: true}")
    with pytest.raises(ValueError, match=r"^queue red: dummynet has no nonlinear$"):
        dummynet.words(red)


@pytest.mark.parametrize(("queue", "words"), FAIR)
def test_a_scheduler_is_told_its_parameters(queue: str, words: str) -> None:
    assert dummynet.words(link(queue)) == (["bw", "10000000bit/s", "delay", "20"], words.split())


def test_links_of_both_directions_are_made_and_taken_back(stand_in: StandIn, found: Driven) -> None:
    before = stand_in.now()
    assert dummynet.refusal(found.reach, "em1") is None
    there, back = link("{kind: pfifo, limit: 200p}"), link(FAIR[0][0])
    dummynet.make(found.reach, there, "em1", 1)
    dummynet.make(found.reach, back, "em0", 2)
    made = [
        "kenv net.inet.ip.fw.default_to_accept=1",
        "kldload ipfw",
        "kldload dummynet",
        "sysctl net.inet.ip.dummynet.expire=0",
        "sysctl net.inet.ip.dummynet.pipe_slot_limit=200",
        "ipfw pipe 1 config bw 10000000bit/s delay 20 queue 200",
        "ipfw add 100 pipe 1 ip from any to any out xmit em1",
        "ipfw pipe 2 config bw 10000000bit/s delay 20",
        f"ipfw sched 2 config pipe 2 type {FAIR[0][1]}",
        "ipfw queue 2 config sched 2",
        "ipfw add 200 queue 2 ip from any to any out xmit em0",
    ]
    # What the stand-in says of a firewall that drops by default is "cut off".
    assert stand_in.log == made
    assert dummynet.refusal(found.reach, "em1") == (
        "ipfw has rules already (00100 pipe 1 ip from any to any out xmit em1)"
    )
    assert stand_in.restore() == ""
    assert stand_in.log[len(made) :] == [
        "ipfw delete 200",
        "ipfw queue 2 delete",
        "ipfw sched 2 delete",
        "ipfw pipe 2 delete",
        "ipfw delete 100",
        "ipfw pipe 1 delete",
        "sysctl net.inet.ip.dummynet.pipe_slot_limit=100",
        "sysctl net.inet.ip.dummynet.expire=1",
        "kldunload dummynet",
        "kldunload ipfw",
        "kenv -u net.inet.ip.fw.default_to_accept",
    ]
    assert stand_in.now() == before


def test_a_firewall_that_is_there_stays(stand_in: StandIn, found: Driven) -> None:
    (stand_in.state / "loaded" / "ipfw").touch()
    dummynet.make(found.reach, link("{kind: pfifo, limit: 50p}"), "em1", 1)
    assert stand_in.log[0] == "kldload dummynet"
    assert stand_in.restore() == ""
    assert (stand_in.state / "loaded" / "ipfw").exists()


@pytest.mark.parametrize(
    ("queue", "more", "message"),
    [
        ("{kind: pfifo, limit: 9p}", "overhead: 14", "without 14 bytes of overhead; write overhead: 0"),
        ("{kind: pfifo, limit: 9p}", "overhead: 0, delay: 1500us", "by whole ms up to 10000, not 1.5"),
        ("{kind: pfifo, limit: 9p}", "overhead: 0, jitter: {sd: 1ms}", "makes no jitter here"),
        ("{kind: pfifo, limit: 9p}", "overhead: 0, duplicate: 1%", "cannot duplicate packets"),
        ("{kind: pfifo, limit: 9p}", "overhead: 0, loss: {nth: {every: 9}}", "kind random, not nth"),
        (
            "{kind: fq_codel, limit: 9p}",
            "overhead: 0, loss: {random: 1%}",
            "fq_codel of dummynet knows no loss",
        ),
        ("{kind: fq_codel, limit: 30000p}", "overhead: 0", "limit_packets up to 20480, not 30000"),
        ("{kind: cake}", "overhead: 0", "cake is not made with dummynet; pfifo,"),
    ],
)
def test_what_dummynet_cannot_do_is_refused(queue: str, more: str, message: str) -> None:
    text = f"rate: 10mbit, queue: {queue}, {more}" + ("" if "delay" in more else ", delay: 20ms")
    made = scenario(bottleneck=text)
    (bottleneck,) = (each for each in made["links"] if each["name"] == "bottleneck")
    with pytest.raises(ValueError, match=message):
        dummynet.check(bottleneck)


def test_counters_of_a_pipe_are_looked_at_again_and_again(stand_in: StandIn, found: Driven) -> None:
    made = link("{kind: pfifo, limit: 90p}")
    dummynet.make(found.reach, made, "em1", 1)
    words = dummynet.watch(made, "em1", 1, 0.05)
    loop = words[2].replace("while :;", "for n in 1 2 3;")
    text = stand_in.run([*words[:2], f"cd {stand_in.base}/run; {loop}", *words[3:]])
    looks = dummynet.looks(text)
    assert len(looks) == 3
    at, look = looks[0]
    assert abs(at / 1e9 - time.time()) < 60
    # 130 came, 6 were dropped, 12 wait.
    assert (look.packets, look.drops, look.backlog_packets, look.backlog_bytes) == (112, 6, 12, 18000)
    assert look.bytes == 190230 - 18000 - 6 * 190230 // 130
    assert dummynet.looks("17\n") == []


def siftr_log(start_s: int) -> str:
    """As FreeBSD 14 writes it (siftr(4)): 27 fields, without hash; a record every ms for a second."""
    head = (
        f"enable_time_secs={start_s}\tenable_time_usecs=000000\tsiftrver=1.3.0\tsysname=FreeBSD"
        "\tsysver=1401000\tipmode=4\n"
    )
    record = "o,{s}.{us:06d},10.0.1.1,10000,10.0.2.1,5201,1073725440,{cwnd},0,65700,65728,6,7,4,1448,40000,1,"
    rest = "480,230000,600000,131072,65536,0,28960,0,3735928559,63\n"
    lines = [record.format(s=start_s, us=n * 1000, cwnd=14480 + n) + rest for n in range(1000)]
    return head + "".join(lines) + f"disable_time_secs={start_s + 1}\tdisable_time_usecs=0\tflow_list=\n"


def test_siftr_is_loaded_told_where_to_log_and_read(stand_in: StandIn, found: Driven) -> None:
    before = stand_in.now()
    made = scenario(more="record: {tcp: 100ms}\n")
    ends: Any = {"f1": SimpleNamespace(flow="f1", from_="a", to="b", source_port=10000, target_port=5201)}
    start_s, offset = 1_700_000_000, 250_000_000
    clocks = {"a": Clock(offset_ns=start_s * 10**9, error_ns=0)}
    looks = siftr.SiftrSampler(7, made, ends, hosts={"a": found}, clocks=clocks)
    assert stand_in.log == [
        "kldload siftr",
        "sysctl net.inet.siftr.genhashes=0",
        f"sysctl net.inet.siftr.logfile={stand_in.base}/run/siftr.log",
    ]
    looks.start()
    looks.mark_start(offset)
    stand_in.put("siftr.log", siftr_log(start_s).encode())
    senders, receivers = looks.stop()
    assert (looks.troubles, receivers.num_rows) == ([], 0)
    rows = senders.to_pylist()
    assert [row["t_ns"] for row in rows] == [99_000_000 + n * 10**8 for n in range(7)] + [749_000_000]
    assert (
        rows[0]
        | {
            "run_id": 7,
            "flow": "f1",
            "local_port": 10000,
            "remote_port": 5201,
            "cwnd_bytes": 14480 + 349,
            "ssthresh_bytes": None,
            "srtt_ns": 40_000_000,
            "inflight_bytes": 28960,
            "mss_bytes": 1448,
            "send_window_bytes": 65700,
            "state": "slow-start",
            "delivered_bytes": None,
        }
        == rows[0]
    )
    assert stand_in.restore() == ""
    assert stand_in.now() | before == stand_in.now()


def test_logs_that_are_none_or_of_others_are_said(stand_in: StandIn, found: Driven) -> None:
    ends: Any = {"f1": SimpleNamespace(flow="f1", from_="a", to="b", source_port=1, target_port=2)}
    looks = siftr.SiftrSampler(0, scenario(), ends, hosts={"a": found}, clocks={"a": Clock(0, 0)})
    stand_in.put("siftr.log", siftr_log(1_700_000_000).encode())
    looks.stop()
    assert looks.troubles == ["host a: siftr logged no connection of the run"]


IPERF = {
    "intervals": [{"sum": {"start": n, "end": n + 1, "bytes": 1_000_000, "retransmits": n}} for n in range(4)]
}


def test_what_iperf3_reports_stands_for_counters_that_the_system_does_not_tell() -> None:
    task = {"flow": "f1", "start_ns": 500_000_000, "stop_ns": 9 * 10**9, "app": {"bytes": None}}
    text, measure = json.dumps(IPERF), (10**9, 3 * 10**9)
    sent = tool_reports.of_iperf3(text, task, "from", measure, 4 * 10**9)
    assert sent is not None
    assert (sent["sent_bytes_in_window"], sent["retransmits_in_window"]) == (2_000_000, 2)
    read = tool_reports.of_iperf3(text, task, "to", measure, 4 * 10**9)
    assert read is not None
    assert (read["read"], read["read_in_window"], read["ended_ns"]) == (4_000_000, 2_000_000, None)
    assert read["seconds"] == [[0, 500_000], [1, 1_000_000], [2, 1_000_000], [3, 1_000_000]]
    whole = {**task, "app": {"bytes": 4_000_000}}
    ended = tool_reports.of_iperf3(text, whole, "to", measure, 9 * 10**9)
    assert ended is not None
    assert ended["ended_ns"] == 4_500_000_000
    for bad in ("", "{}", '{"intervals": [{"sum": {}}]}', '{"intervals": []}'):
        assert tool_reports.of_iperf3(bad, task, "to", measure, 10**9) is None


def test_the_clock_is_read_without_nanoseconds_of_date(stand_in: StandIn) -> None:
    told = stand_in.shell(f"{NOW}date +%s%N; now")
    whole, now = told.split()
    assert whole.endswith("N")
    assert abs(int(now) / 1e9 - time.time()) < 60
    clock = stand_in.run(["sh", "-c", machine.CLOCK], "\n\n").split()
    assert int(clock[0]) <= int(clock[1]) < int(clock[0]) + 60 * 10**9


def test_the_load_of_processors_is_told_as_linux_tells_it(stand_in: StandIn) -> None:
    loop = commands.BUSY_LOOP.replace("sleep 1", "break").replace(">&2", "")
    first = stand_in.shell(loop)
    assert first == "cpu0 100 0 50 850 0 0 0 0\ncpu1 200 0 0 800 0 0 0 0\n"
    stand_in.sysctl("kern.cp_times").write_text("195 0 40 10 855 210 0 0 0 890")
    assert sampler.busiest(first + stand_in.shell(loop)) == pytest.approx(0.95)


def test_interfaces_and_counters_are_found_by_what_freebsd_prints(stand_in: StandIn) -> None:
    assert "0: em1    inet 10.0.1.1/" in stand_in.shell(machine.ADDRESSES)
    told = counters.read(stand_in.shell("netstat -sp tcp\n"))
    assert told == {
        "packets sent": 4711,
        "data packets": 4000,
        "data packets retransmitted": 7,
        "connections established (including accepts)": 2,
    }
    assert "sockstat -46l" in tools.LISTENS


def test_programs_that_are_missing_are_named_with_their_packages(found: Driven) -> None:
    assert isinstance(found.reach, ByShell)
    assert found.reach.package("iperf3") == "FreeBSD: pkg install iperf3"
    with pytest.raises(
        ValueError, match=r"bectl-x is not installed, which a test needs \(a part of FreeBSD\)"
    ):
        found.reach.program("bectl-x", "a test")
