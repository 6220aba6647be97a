"""Messages of rtnetlink as bytes, held against what pyroute2 makes of them."""

import struct
from typing import Any

import pytest
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from cwndlab import load
from cwndlab.testbeds.kernel import netlink, qdiscs

TEXT = """\
experiment: x
duration: 2s
hosts: {a: {stack: linux}, b: {stack: linux}}
network:
  dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 30p}}}
flows: [{name: f, from: a, to: b}]
"""


def link(**bottleneck: str) -> Any:
    changes = [f"network.dumbbell.bottleneck.{key}={value}" for key, value in bottleneck.items()]
    links = load(TEXT, changes).plan().runs[0].scenario["links"]
    return next(link for link in links if link["name"] == "bottleneck")


def read(kind: type[Any], message: bytes) -> Any:
    found = kind(message)
    found.decode()
    assert found["header"]["length"] == len(message)
    return found


def sent(link: Any) -> list[Any]:
    return [read(tcmsg, message) for message in qdiscs.messages(link, 3)]


def test_a_cable_has_two_ends_with_the_numbers_names_and_addresses_given() -> None:
    near, far = (netlink.hardware_address(7, end) for end in (0, 1))
    message = read(ifinfmsg, netlink.cable((2, "e0", near), (5, "e3", far), 4, 1500))
    assert (message["index"], message.get_attr("IFLA_IFNAME"), message.get_attr("IFLA_MTU")) == (
        2,
        "e0",
        1500,
    )
    assert message.get_attr("IFLA_ADDRESS") == "02:63:00:07:00:00"
    peer = message.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_DATA").get_attr("VETH_INFO_PEER")
    assert (peer["index"], peer.get_attr("IFLA_IFNAME")) == (5, "e3")
    assert peer.get_attr("IFLA_NET_NS_FD") == netlink.FIRST_NODE + 4


def test_a_route_of_a_host_says_its_source_and_mss() -> None:
    message = read(rtmsg, netlink.route("10.0.1.1", "169.254.0.1", 2, "10.0.0.1", 1400))
    told = {name: message.get_attr(name) for name in ("RTA_DST", "RTA_GATEWAY", "RTA_OIF", "RTA_PREFSRC")}
    assert list(told.values()) == ["10.0.1.1", "169.254.0.1", 2, "10.0.0.1"]
    assert message.get_attr("RTA_METRICS").get_attr("RTAX_ADVMSS") == 1400


def test_addresses_neighbours_and_routes_are_of_either_ip_version() -> None:
    message = read(rtmsg, netlink.route("fd00::1:1", "fe80::1", 2, "fd00::1", 1400))
    told = {name: message.get_attr(name) for name in ("RTA_DST", "RTA_GATEWAY", "RTA_OIF", "RTA_PREFSRC")}
    assert (message["family"], message["dst_len"]) == (10, 128)
    assert list(told.values()) == ["fd00::1:1", "fe80::1", 2, "fd00::1"]
    own = read(ifaddrmsg, netlink.address(1, "fd00::1"))
    # IFA_F_NODAD: without it the kernel refuses a route from this address until it has looked for duplicates.
    assert (own["family"], own["prefixlen"], own["flags"], own.get_attr("IFA_ADDRESS")) == (
        10,
        128,
        2,
        "fd00::1",
    )
    old = read(ifaddrmsg, netlink.address(1, "10.0.0.1"))
    assert (old["family"], old["prefixlen"], old["flags"]) == (2, 32, 0)
    other = read(ndmsg, netlink.neighbour(2, "fe80::1", bytes(6)))
    assert (other["family"], other.get_attr("NDA_DST")) == (10, "fe80::1")


def test_an_interface_without_multicast_is_switched_on_alike() -> None:
    with_it, without = (read(ifinfmsg, netlink.up(3, multicast=told)) for told in (True, False))
    assert with_it["flags"] == without["flags"] == 1
    assert (with_it["change"], without["change"]) == (1, 0x1001)


def test_a_link_is_netem_above_htb_above_its_queue() -> None:
    messages = sent(link())
    assert [message.get_attr("TCA_KIND") for message in messages] == ["netem", "htb", "htb", "pfifo"]
    netem, htb, one, pfifo = messages
    assert netem["parent"] == netlink.ROOT
    assert (htb["parent"], one["parent"], pfifo["parent"]) == (0x30001, 0x10000, 0x10001)
    parameters = one.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_PARMS")
    assert parameters["rate"] == 1_250_000
    # A packet of 1514 bytes takes 1.2112 ms, which is 18925 ticks of 64 ns.
    assert parameters["buffer"] == 18_925


def test_a_link_that_only_passes_packets_on_has_no_queue_discipline() -> None:
    plain = {**link(), "rate_bps": None, "delay_ns": 0}
    assert sent(plain) == []
    assert qdiscs.places(plain) is None
    assert [m.get_attr("TCA_KIND") for m in sent({**link(), "rate_bps": None})] == ["netem"]


def test_a_class_of_htb_is_what_the_file_says() -> None:
    told = "{kind: htb, rate: 10mbit, ceil: 20mbit, burst: 3028B, cburst: 1514B}"
    messages = sent({**link(shaper=told), "rate_bps": None})
    assert [message.get_attr("TCA_KIND") for message in messages] == ["netem", "htb", "htb", "pfifo"]
    parameters = messages[2].get_attr("TCA_OPTIONS").get_attr("TCA_HTB_PARMS")
    assert (parameters["rate"], parameters["ceil"]) == (1_250_000, 2_500_000)
    # 3028 bytes take 2.4224 ms at the rate, 1514 bytes 0.6056 ms at the ceiling's, in ticks of 64 ns.
    assert (parameters["buffer"], parameters["cbuffer"]) == (37_850, 9_463)


def test_a_token_bucket_has_the_peak_that_the_file_says() -> None:
    told = "{kind: tbf, rate: 10mbit, burst: 3028B, peakrate: 20mbit}"
    _, message, pfifo = qdiscs.messages({**link(shaper=told), "rate_bps": None}, 3)
    assert read(tcmsg, pfifo)["parent"] == 0x40001
    found = dict(_attributes(options(message)))
    rate, peak, _, burst, mtu = struct.unpack("=12s12sIII", found[1])
    assert [struct.unpack("=8xI", each)[0] for each in (rate, peak)] == [1_250_000, 2_500_000]
    assert (burst, mtu) == (37_850, 9_463)
    assert [struct.unpack("=I", found[each])[0] for each in (6, 7)] == [3028, 1514]


def options(message: bytes) -> bytes:
    """The content of TCA_OPTIONS."""
    place = 16 + 20
    while place < len(message):
        size, kind = struct.unpack_from("=HH", message, place)
        if kind & 0x3FFF == 2:
            return message[place + 4 : place + size]
        place += -(-size // 4) * 4
    raise AssertionError("no options")


def test_loss_delay_and_order_are_netems() -> None:
    (message, *_) = qdiscs.messages(link(loss="{random: 25%}", jitter="{sd: 3ms, kind: uniform}"), 3)
    told = options(message)
    _, limit, loss = struct.unpack_from("=III", told)
    assert (limit, loss) == (qdiscs.NETEM_LIMIT, 1 << 30)
    attributes = dict(_attributes(told[24:]))
    assert struct.unpack("=q", attributes[10]) == (20_000_000,)
    assert struct.unpack("=q", attributes[11]) == (3_000_000,)
    assert struct.unpack("=Q", attributes[8])[0] > 1 << 50, "no packet takes time, and none overtakes another"


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        size, kind = struct.unpack_from("=HH", data)
        found.append((kind, data[4:size]))
        data = data[-(-size // 4) * 4 :]
    return found


def test_gilbert_is_netems_chain() -> None:
    (message, *_) = qdiscs.messages(
        link(loss="{gilbert: {p: 25%, r: 50%, loss_bad: 100%, loss_good: 0%}}"), 3
    )
    (kind, chain), *_ = _attributes(dict(_attributes(options(message)[24:]))[5])
    assert (kind, struct.unpack("=IIII", chain)) == (2, (1 << 30, 1 << 31, 0, 0))


@pytest.mark.parametrize("kind", ["codel", "fq_codel", "pie", "fq_pie", "cake", "fq"])
def test_every_queue_of_a_file_has_its_parameters(kind: str) -> None:
    queue = link(queue=kind)["queue"]
    *_, message = qdiscs.messages(link(queue=kind), 3)
    told = dict(_attributes(options(message)))
    known = {field for field, value in queue.items() if field != "kind" and value is not None}
    assert len(told) == len(known)


def test_dualpi2_is_told_in_the_kernels_units_and_sizes() -> None:
    *_, message = qdiscs.messages(link(queue="dualpi2"), 3)
    told = dict(_attributes(options(message)))
    # Gains in 256ths of a Hz: the kernel's own defaults are 41 and 819 (RFC 9332: 0.16 and 3.2 Hz).
    assert [int.from_bytes(told[number], "little") for number in (5, 6)] == [41, 819]
    assert {number: told[number] for number in range(10, 16)} == {
        **{10: b"\x02", 11: b"\x01", 12: b"\x00", 13: b"\x0a", 14: b"\x01", 15: b"\x01"}
    }
    assert (int.from_bytes(told[8], "little"), 7 in told) == (1000, False)
    *_, message = qdiscs.messages(link(queue="{kind: dualpi2, step_packets: 7p, any_ect: true}"), 3)
    told = dict(_attributes(options(message)))
    # The kernel refuses a step in packets beside one in time.
    assert (int.from_bytes(told[7], "little"), 8 in told, told[14]) == (7, False, b"\x03")


def test_choke_is_told_its_thresholds_in_packets() -> None:
    queue = "{kind: choke, limit: 100p, min: 8p, max: 25p, burst: 13p, probability: 5%, ecn: true}"
    *_, message = qdiscs.messages(link(queue=queue), 3)
    told = dict(_attributes(options(message)))
    # What tc of iproute2 6.1 sends of the same words.
    assert told[1] == struct.pack("=IIIBBBB", 100, 8, 25, 3, 19, 13, 1)
    assert struct.unpack("=I", told[3]) == (round(0.05 * 2**32),)
    assert (len(told[2]), 4 in told) == (256, False)


def test_fq_is_told_rates_in_bytes() -> None:
    *_, message = qdiscs.messages(link(queue="{kind: fq, maxrate: 4mbit}"), 3)
    told = {number: int.from_bytes(data, "little") for number, data in _attributes(options(message))}
    assert told == {
        **{1: 10_000, 2: 100, 3: 3028, 4: 15_140, 7: 500_000, 9: 40_000, 10: 1023, 11: 68_750},
        **{14: 10_000_000, 15: 1},
    }


def test_a_delay_that_varies_comes_behind_the_queue() -> None:
    jitter = "{sd: 1ms, kind: uniform, reorder: true}"
    whole = link(jitter=jitter, loss="{random: 1%}")
    queue, wire = qdiscs.divided(whole)
    assert wire is not None
    assert [message.get_attr("TCA_KIND") for message in sent(queue)] == ["netem", "htb", "htb", "pfifo"]
    (lossy, *_), (delaying,) = qdiscs.messages(queue, 3), qdiscs.messages(wire, 3)
    told = [dict(_attributes(options(message)[24:])) for message in (lossy, delaying)]
    (losing, held), (lost, late) = (
        (struct.unpack("=I", options(message)[8:12])[0], struct.unpack("=q", parts[10])[0])
        for message, parts in zip((lossy, delaying), told, strict=True)
    )
    assert (losing > 0, held) == (True, 0)
    assert (lost, late) == (0, whole["delay_ns"])
    assert qdiscs.divided(link())[1] is None
    only_late = {**whole, "rate_bps": None}
    assert qdiscs.divided(only_late) == (only_late, None)


def test_reds_weight_is_what_tc_derives() -> None:
    # As iproute2 6.1 sends these.
    asked = {"limit": "400KB", "min": "30KB", "max": "90KB", "avpkt": "1000B", "burst": "55p"}
    words = ", ".join(f"{key}: {value}" for key, value in asked.items())
    text = f"{{kind: red, probability: 10%, bandwidth: 10mbit, {words}}}"
    *_, message = qdiscs.messages(link(queue=text), 3)
    parameters = dict(_attributes(options(message)))[1]
    limit, low, high, weight, slope, cell, flags = struct.unpack("=IIIBBBB", parameters)
    assert (limit, low, high, flags) == (400_000, 30_000, 90_000, 0)
    assert (weight, slope, cell) == (5, 20, 15)


@pytest.mark.parametrize(
    ("bottleneck", "says"),
    [
        ({"loss": "{list: [3]}"}, "loss list"),
        ({"loss": "{nth: {every: 7, packet: 0}}"}, "loss nth"),
        ({"shaper": "{kind: policer, rate: 5mbit, burst: 10KB}"}, "shaper"),
        ({"queue": "{kind: fq, ce_threshold: 5ms}"}, "the same kernel"),
        ({"queue": "{kind: fq, maxrate: 5mbit}"}, "the same kernel"),
        ({"queue": "{kind: red, limit: 60KB, nonlinear: true}"}, "red with nonlinear"),
    ],
)
def test_what_a_kernel_has_not_is_refused(bottleneck: dict[str, str], says: str) -> None:
    assert says in (qdiscs.refusal(link(**bottleneck)) or "")
    assert qdiscs.refusal(link(queue="fq")) is None
