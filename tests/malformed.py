"""The table of malformed experiments; malformed.txt has the one line that must come of each."""

GOOD = """\
experiment: good
duration: 90s
hosts:
  a: {stack: freebsd-9.2, cc: newreno, sndbuf: 600KB}
  b: {stack: linux-6.8, rcvbuf: 600KB}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 1gbit}
    bottleneck:
      rate: 10mbit
      delay: 20ms
      queue: {kind: pfifo, limit: 90p}
flows:
  - {name: f1, from: a, to: b, app: bulk, start: 0s}
sweep:
  - hosts.a.cc: [newreno, cubic]
  - zip: {network.dumbbell.bottleneck.rate: [2mbit, 10mbit], network.dumbbell.reverse.rate: [1mbit, 10mbit]}
repeat: 5
measure: {from: 10s}
record: {tcp: per-ack, queue: 10ms, pcap: false}
"""

AXIS = "- hosts.a.cc: [newreno, cubic]"
TUNING = """- name: tuning
    values:
      vanilla: {}
      test 2: {hosts.a.cc: cubic}"""

# (what is wrong, text of the good file, text in its place)
EDITS = [
    # Names and shapes
    ("unknown top-level key", "repeat:", "repeats:"),
    ("unknown key of a host", "sndbuf:", "sndbuff:"),
    ("unknown key far from any", "sndbuf: 600KB", "colour: red"),
    ("unknown key of a queue", "limit: 90p", "limt: 90p"),
    ("a later format, which has other keys", "repeat:", "format: 2\nrepeats:"),
    ("a format that there is not", "repeat:", "format: one\nrepeat:"),
    ("a list of formats", "repeat:", "format: [1, 2]\nrepeat:"),
    ("missing key", "duration: 90s\n", ""),
    ("missing end of a flow", "to: b, ", ""),
    ("a list for a mapping", "access: {rate: 1gbit}", "access: [1gbit]"),
    ("a mapping for a list", "left: [a]", "left: {a: b}"),
    ("a mapping for a value", "duration: 90s", "duration: {s: 90}"),
    ("nothing for a value", "duration: 90s", "duration:"),
    ("no flows", "flows:\n  - {name: f1, from: a, to: b, app: bulk, start: 0s}", "flows: []"),
    ("two topologies", "network:\n", "network:\n  star: {}\n"),
    # The question
    ("an answer without a metric", "repeat: 5", "repeat: 5\nanswers: [{better: lower}]"),
    ("an answer that is a word", "repeat: 5", "repeat: 5\nanswers: [goodput_mbps]"),
    ("a way that is none", "repeat: 5", "repeat: 5\nanswers: [{metric: jain, better: more}]"),
    # Quantities
    ("a rate without unit", "rate: 10mbit", "rate: 10"),
    ("a rate with another tool's unit", "rate: 10mbit", "rate: 10Mbps"),
    ("a rate in capitals", "rate: 10mbit", "rate: 10Mbit"),
    ("a rate of nothing", "rate: 10mbit", "rate: 0mbit"),
    ("a negative time", "delay: 20ms", "delay: -20ms"),
    ("a fraction of a nanosecond", "delay: 20ms", "delay: 0.5ns"),
    ("a time with a rate's unit", "delay: 20ms", "delay: 20mbit"),
    ("a size in k", "sndbuf: 600KB", "sndbuf: 600k"),
    ("a buffer that no socket has", "sndbuf: 600KB", "sndbuf: 2GiB"),
    ("a percentage above all", "delay: 20ms", "loss: {random: 101%}"),
    ("a rate in bytes", "rate: 10mbit", "rate: 10 MB/s"),
    ("a rate in bytes of another spelling", "rate: 10mbit", "rate: 1.25MBps"),
    ("a time without unit", "delay: 20ms", "delay: 20"),
    ("a limit without unit", "limit: 90p", "limit: 90"),
    ("a size without unit", "sndbuf: 600KB", "sndbuf: 65536"),
    ("loss as one value", "delay: 20ms", "loss: 1%"),
    ("loss as a fraction", "delay: 20ms", "loss: 0.01"),
    ("a window as one value", "measure: {from: 10s}", "measure: 10s"),
    ("an access as one value", "access: {rate: 1gbit}", "access: 1gbit"),
    ("half a packet", "limit: 90p", "limit: 0.5p"),
    ("a whole number in words", "repeat: 5", "repeat: five"),
    ("a whole number with a unit", "repeat: 5", "repeat: 5s"),
    ("a tick that is no whole number of nanoseconds", "sndbuf: 600KB", "hz: 1024"),
    ("writes of nothing", "app: bulk", "app: {kind: bulk, write: 0B}"),
    (
        "writes larger than an on-period sends",
        "app: bulk",
        "app: {kind: on-off, rate: 100kbit, on: 1s, off: 1s, write: 128KiB}",
    ),
    (
        "on-periods too short for a byte",
        "app: bulk",
        "app: {kind: on-off, rate: 100kbit, on: 1us, off: 1s}",
    ),
    ("no repeat", "repeat: 5", "repeat: 0"),
    ("exponents", "duration: 90s", "duration: 9e1s"),
    ("infinity", "duration: 90s", "duration: .inf"),
    # Names of the engine
    ("unknown stack", "stack: linux-6.8", "stack: linux-6.9"),
    ("unknown congestion control", "cc: newreno,", "cc: newrenno,"),
    ("congestion control of another system", "[newreno, cubic]", "[newreno, bbr]"),
    ("unknown queue", "kind: pfifo", "kind: pfif"),
    ("drop-tail as others call it", "kind: pfifo", "kind: droptail"),
    ("drop-tail in other words", "{kind: pfifo, limit: 90p}", "tail-drop"),
    ("Linux's default queue", "{kind: pfifo, limit: 90p}", "pfifo_fast"),
    ("a tool for an app", "app: bulk", "app: iperf"),
    ("a rate as others call it", "rate: 10mbit", "bandwidth: 10mbit"),
    ("a delay as others call it", "delay: 20ms", "latency: 20ms"),
    ("a round trip for a delay", "delay: 20ms", "rtt: 40ms"),
    ("a sysctl of Linux on FreeBSD", "sndbuf: 600KB", "sysctl: {net.ipv4.tcp_wmem: 4096 16384 4194304}"),
    ("a sysctl of FreeBSD on Linux", "rcvbuf: 600KB", "sysctl: {net.inet.tcp.recvbuf_max: 4194304}"),
    ("the sysctl of cc", "rcvbuf: 600KB", "sysctl: {net.ipv4.tcp_congestion_control: bbr}"),
    ("the name of the sysctl of cc as a key", "rcvbuf: 600KB", "tcp_congestion_control: bbr"),
    ("limit of a queue that has none", "kind: pfifo, limit: 90p", "kind: cake, limit: 90p"),
    ("queue without what it needs", "kind: pfifo, limit: 90p", "kind: red"),
    ("queue parameter that is still to come", "kind: pfifo, limit: 90p", "kind: cake, ack_filter: true"),
    ("RED's min above its max", "kind: pfifo, limit: 90p", "kind: red, limit: 100KB, min: 50KB, max: 40KB"),
    ("RED's min above what max is by default", "kind: pfifo, limit: 90p", "kind: red, limit: 20KB, max: 0B"),
    (
        "RED that averages over less than its min",
        "kind: pfifo, limit: 90p",
        "kind: red, limit: 100KB, min: 30KB, burst: 1p",
    ),
    ("RED that neither marks nor drops", "kind: pfifo, limit: 90p", "kind: red, limit: 100KB, nodrop: true"),
    ("RED without room for a packet", "kind: pfifo, limit: 90p", "kind: red, limit: 1000B"),
    ("CAKE without room for a packet", "kind: pfifo, limit: 90p", "kind: cake, memlimit: 10B"),
    ("CAKE with more memory than tc can say", "kind: pfifo, limit: 90p", "kind: cake, memlimit: 5GB"),
    ("a token bucket that no packet fits", "delay: 20ms", "shaper: {kind: tbf, rate: 2mbit, burst: 500B}"),
    ("a policer that no packet fits", "delay: 20ms", "shaper: {kind: policer, rate: 2mbit, burst: 1B}"),
    ("slots that never open", "delay: 20ms", "shaper: {kind: slots, packets: 3}"),
    ("an egress that holds nothing", "sndbuf: 600KB", "egress: {limit: 0p}"),
    ("a largest super-packet without TSO", "sndbuf: 600KB", "nic: {tso_max: 16KB}"),
    ("a super-packet below the MSS", "sndbuf: 600KB", "nic: {tso: true, tso_max: 100B}"),
    ("a super-packet above 64 KB", "sndbuf: 600KB", "nic: {tso: true, tso_max: 10MB}"),
    ("DualPI2 without coupling", "kind: pfifo, limit: 90p", "kind: dualpi2, coupling_factor: 0"),
    ("DualPI2 with a gain beyond bounds", "kind: pfifo, limit: 90p", "kind: dualpi2, alpha: 257"),
    ("DualPI2 for round trips that are too short", "kind: pfifo, limit: 90p", "kind: dualpi2, max_rtt: 1ms"),
    ("DualPI2 without room for a packet", "kind: pfifo, limit: 90p", "kind: dualpi2, memlimit: 10B"),
    ("CHOKe with min above max", "kind: pfifo, limit: 90p", "kind: choke, limit: 90p, min: 30p"),
    ("CHOKe without a limit", "kind: pfifo, limit: 90p", "kind: choke"),
    ("CHOKe with more packets than the kernel has", "kind: pfifo, limit: 90p", "kind: choke, limit: 200000p"),
    ("CHOKe whose average has no weight", "kind: pfifo, limit: 90p", "kind: choke, limit: 90p, burst: 3p"),
    ("FQ with weights", "kind: pfifo, limit: 90p", "kind: fq, weights: 3"),
    ("FQ with a small quantum", "kind: pfifo, limit: 90p", "kind: fq, quantum: 100B"),
    (
        "DualPI2 with a step in time for packets",
        "kind: pfifo, limit: 90p",
        "kind: dualpi2, step_packets: 1ms",
    ),
    ("CAKE for no round-trip time", "kind: pfifo, limit: 90p", "kind: cake, rtt: 0ms"),
    ("unknown app", "app: bulk", "app: bulky"),
    ("media without a controller", "app: bulk", "app: media"),
    (
        "media whose least rate is the larger",
        "app: bulk",
        "app: {kind: media, controller: gcc, min_rate: 2mbit}",
    ),
    ("scenario that the tool lacks", "app: bulk", "app: {kind: loadlatency, scenario: 20}"),
    ("unknown sysctl", "sndbuf: 600KB", "sysctl: {net.inet.tcp.abc_l_vax: 2}"),
    ("sysctl out of bounds", "sndbuf: 600KB", "sysctl: {net.inet.tcp.abc_l_var: -1}"),
    ("sysctl in words", "sndbuf: 600KB", "sysctl: {net.inet.tcp.abc_l_var: two}"),
    ("one value of three", "rcvbuf: 600KB", "sysctl: {net.ipv4.tcp_rmem: 4096}"),
    ("three values of one", "sndbuf: 600KB", "sysctl: {net.inet.tcp.abc_l_var: 1 2 3}"),
    # Keys that a testbed does not carry out
    ("host noise of no time", "sndbuf: 600KB", "noise: {stall: {every: 0s, length: 5us}}"),
    ("an aggregate of nothing", "rcvbuf: 600KB", "ack_every: {segments: 0}"),
    ("an egress without a rate", "sndbuf: 600KB", "egress: {rate: 0bit}"),
    (
        "a port that is none",
        "rcvbuf: 600KB",
        "ingress: {after_gro: {loss: {random: 1%}, match: {dport: 70000}}}",
    ),
    (
        "a match of an ingress within its loss",
        "rcvbuf: 600KB",
        "ingress: {after_gro: {loss: {nth: {every: 9, match: {dport: 80}}}}}",
    ),
    ("a datagram that does not fit", "app: bulk", "app: {kind: udp-cbr, rate: 1mbit, payload: 9000B}"),
    ("a background without a mean", "app: bulk", "app: {kind: background, load: 1mbit, shape: 1}"),
    ("a trace elsewhere", "delay: 20ms", "shaper: {kind: trace, file: ../../etc/passwd}"),
    ("a trace that is not there", "delay: 20ms", "shaper: {kind: trace, file: none.up}"),
    ("a trace with a rate", "delay: 20ms", "shaper: {kind: trace, file: none.up, rate: 1mbit}"),
    ("a table of no jitter", "delay: 20ms", "jitter: {kind: normal, sd: 1ms, file: a.dist}"),
    ("jitter from a file", "delay: 20ms", "jitter: {kind: file, sd: 1ms, file: ../../etc/passwd}"),
    ("jitter of nothing", "delay: 20ms", "jitter: {kind: normal}"),
    ("a trace", "delay: 20ms", "shaper: {kind: trace}"),
    ("a bucket without a size", "delay: 20ms", "shaper: {kind: tbf, rate: 1mbit}"),
    ("a class of htb without a rate", "delay: 20ms", "shaper: {kind: htb, burst: 2KB}"),
    ("a ceiling below the rate", "delay: 20ms", "shaper: {kind: htb, rate: 2mbit, ceil: 1mbit}"),
    ("a ceiling of a bucket", "delay: 20ms", "shaper: {kind: tbf, rate: 1mbit, burst: 2KB, ceil: 2mbit}"),
    ("a peak below the rate", "delay: 20ms", "shaper: {kind: tbf, rate: 2mbit, burst: 2KB, peakrate: 1mbit}"),
    (
        "a peak that no packet fits",
        "delay: 20ms",
        "shaper: {kind: tbf, rate: 1mbit, burst: 2KB, peakrate: 2mbit, mtu: 100B}",
    ),
    (
        "the size of no peak",
        "delay: 20ms",
        "shaper: {kind: tbf, rate: 1mbit, burst: 9KB, mtu: 2KB}",
    ),
    ("two limits of a queue", "delay: 20ms", "shaper: {kind: tbf, rate: 1mbit, burst: 2KB, limit: 90KB}"),
    ("loggers", "repeat: 5", "loggers: [siftr]"),
    # Queues and links
    ("bytes for a packet queue", "limit: 90p", "limit: 125KB"),
    ("packets for a byte queue", "kind: pfifo, limit", "kind: bfifo, limit"),
    ("BDP without a rate", "access: {rate: 1gbit}", "access: {queue: {kind: pfifo, limit: 1bdp}}"),
    ("an empty queue", "limit: 90p", "limit: 0p"),
    ("two kinds of loss", "delay: 20ms", "loss: {random: 1%, nth: {every: 9}}"),
    ("a packet beyond its period", "delay: 20ms", "loss: {nth: {every: 9, packet: 9}}"),
    ("lost packets out of order", "delay: 20ms", "loss: {list: [3, 1]}"),
    ("an MTU below the least", "delay: 20ms", "mtu: 500"),
    ("a change after the end", "delay: 20ms", "schedule: [{at: 95s, set: {rate: 1mbit}}]"),
    ("a change of nothing", "delay: 20ms", "schedule: [{at: 5s, set: {}}]"),
    # Hosts and flows
    ("two flows of one name", "start: 0s}", "start: 0s}\n  - {name: f1, from: b, to: a}"),
    ("a flow from nowhere", "from: a", "from: c"),
    ("a flow to itself", "to: b", "to: a"),
    ("a host that is not there", "right: [b]", "right: [bb]"),
    ("a host attached twice", "right: [b]", "right: [b, a]"),
    ("a host that is not attached", "  b: {stack", "  c: {stack: linux}\n  b: {stack"),
    ("stop before start", "start: 0s", "start: 5s, stop: 5s"),
    ("stop after the end", "start: 0s", "stop: 91s"),
    ("start after the end", "start: 0s", "start: 90s"),
    ("measure beyond the end", "measure: {from: 10s}", "measure: {to: 91s}"),
    ("measure backwards", "measure: {from: 10s}", "measure: {from: 10s, to: 10s}"),
    ("capture of nothing", "pcap: false", "pcap: [c]"),
    ("sampling in words", "tcp: per-ack", "tcp: per-acks"),
    # Sweeps
    ("sweep over an unknown key", "- hosts.a.cc:", "- hosts.a.ccc:"),
    ("sweep over an unknown section", "- hosts.a.cc:", "- host.a.cc:"),
    ("sweep over an unknown host", "- hosts.a.cc:", "- hosts.c.cc:"),
    ("sweep over an unknown flow", "- hosts.a.cc:", "- flows.f2.cc:"),
    ("sweep over the seed", "- hosts.a.cc: [newreno, cubic]", "- seed: [1, 2]"),
    ("sweep with a bad value", "[2mbit, 10mbit]", "[2mbit, 10]"),
    ("sweep through a value", "- hosts.a.cc:", "- hosts.a.cc.x:"),
    (
        "sweep as a mapping",
        "  - hosts.a.cc: [newreno, cubic]\n  - zip",
        "  hosts.a.cc: [newreno, cubic]\n  zip",
    ),
    (
        "an axis with two keys",
        "- hosts.a.cc: [newreno, cubic]",
        "- {hosts.a.cc: [cubic], hosts.b.cc: [cubic]}",
    ),
    ("an axis without values", "- hosts.a.cc: [newreno, cubic]", "- hosts.a.cc: []"),
    ("an axis with one bare value", "- hosts.a.cc: [newreno, cubic]", "- hosts.a.cc: cubic"),
    ("zip of unequal lengths", "[1mbit, 10mbit]", "[1mbit]"),
    ("one key on two axes", "- hosts.a.cc: [newreno, cubic]", "- network.dumbbell.reverse.rate: [1mbit]"),
    ("a named axis without values", AXIS, "- {name: tuning}"),
    ("a named axis without a name", AXIS, "- {values: {a: {hosts.a.cc: cubic}}}"),
    ("a named axis with a key more", AXIS, "- {name: tuning, value: {a: {}}}"),
    ("a named axis with a list", AXIS, "- {name: tuning, values: [cubic, newreno]}"),
    ("a named axis without levels", AXIS, "- {name: tuning, values: {}}"),
    ("an axis with a key's name", AXIS, "- {name: duration, values: {a: {hosts.a.cc: cubic}}}"),
    ("an axis with a dot in its name", AXIS, "- {name: my.axis, values: {a: {hosts.a.cc: cubic}}}"),
    ("a level that is a word", AXIS, "- {name: tuning, values: {a: cubic}}"),
    ("a level twice", AXIS, "- {name: tuning, values: {a: {hosts.a.cc: cubic}, a: {hosts.a.cc: htcp}}}"),
    ("a level with a long name", AXIS, "- {name: tuning, values: {" + "a" * 61 + ": {hosts.a.cc: cubic}}}"),
    ("a level with an unknown key", AXIS, TUNING.replace("hosts.a.cc", "hosts.a.ccc")),
    ("a level with an unknown section", AXIS, TUNING.replace("hosts.a.cc", "host.a.cc")),
    ("a level with an unknown host", AXIS, TUNING.replace("hosts.a.cc", "hosts.c.cc")),
    ("a level with an unknown flow", AXIS, TUNING.replace("hosts.a.cc", "flows.f2.cc")),
    ("a level with a bad value", AXIS, TUNING.replace("cubic", "nonsense")),
    ("a level with the seed", AXIS, TUNING.replace("hosts.a.cc: cubic", "seed: 2")),
    ("a key on two axes, one of them named", AXIS, TUNING + "\n  - hosts.a.cc: [newreno]"),
    ("one name on two axes", AXIS, "- {name: x, values: {a: {}}}\n  - {name: x, values: {b: {}}}"),
    ("too many runs", "repeat: 5", "  - start_jitter: [" + "1ms, " * 9 + "1ms]\nrepeat: 10000"),
    # Names that could do harm elsewhere
    ("a path as a name", "experiment: good", "experiment: ../../etc/passwd"),
    ("a shell word as a name", "name: f1", "name: '$(reboot)'"),
    ("an option as a name", "name: f1", "name: -rf"),
    ("a control character in a name", "name: f1", 'name: "f\\n1"'),
    ("a path as a host", "  b: {stack", "  ../b: {stack"),
    ("a long name", "name: f1", "name: " + "f" * 33),
    ("a sysctl with a space", "sndbuf: 600KB", "sysctl: {'x; reboot': 1}"),
    # YAML that is more than text, lists and mappings
    ("a tag", "duration: 90s", "duration: !!python/object/apply:os.system [reboot]"),
    ("a plain tag", "duration: 90s", "duration: !!str 90s"),
    ("an anchor", "left: [a]", "left: &all [a]"),
    ("an alias", "left: [a]", "left: *all"),
    ("a duplicate key", "duration: 90s", "duration: 90s\nduration: 60s"),
    ("a list as a key", "duration: 90s", "? [duration]\n: 90s"),
    ("a merge key", "duration: 90s", "duration: 90s\n<<: {repeat: 2}"),
    ("an open bracket", "left: [a]", "left: [a"),
    ("a tab", "    left", "\tleft"),
    ("a second document", "measure:", "---\nmeasure:"),
    ("a control character", "experiment: good", "experiment: go\x07od"),
]

STAR = GOOD.replace(
    GOOD[GOOD.index("  dumbbell:") : GOOD.index("flows:")], "  star: {switch: {pause: true}}\n"
)

# (what is wrong, the whole file)
FILES = [
    (
        "pause frames without a shared buffer",
        STAR.replace(STAR[STAR.index("  - zip") : STAR.index("repeat:")], "").encode(),
    ),
    ("an empty file", b""),
    ("only comments", b"# nothing\n"),
    ("a list", b"- a\n- b\n"),
    ("a word", b"hello\n"),
    ("bytes that are not UTF-8", b"experiment: a\nduration: \xff\n"),
    ("nothing but brackets", b"[" * 100_000),
    ("deep mappings", b"{a: " * 1000),
    ("a file that is too large", b"# " + b"x" * (1 << 20)),
    (
        "a bomb of aliases",
        b"a: &a [x, x, x, x]\n"
        + b"".join(b"%c: &%c [*%c, *%c]\n" % (c, c, c - 1, c - 1) for c in range(98, 122)),
    ),
    ("UTF-16", "experiment: a\n".encode("utf-16")),
]

# (what is wrong, options)
OPTIONS = [
    ("an option without value", ["duration"]),
    ("an option with a bad value", ["duration=10"]),
    ("an option with an unknown key", ["durations=10s"]),
    ("an option for an unknown host", ["hosts.c.cc=cubic"]),
    ("an option for a key of a zip", ["network.dumbbell.bottleneck.rate=1mbit"]),
    ("an option for the sweep", ["sweep=[]"]),
    ("an option with a tag", ["duration=!!str 10s"]),
    ("an option that contradicts the file", ["duration=10s"]),
    ("an option of two lines", ["duration=1x\n0"]),
]
