"""The commented experiment that ``cwndlab init`` writes to start from."""

TEMPLATE = """\
# An experiment for cwndlab: run it with `cwndlab run FILE`.
#
# Quantities carry their unit: 10mbit, 1gbit; 40ms, 90s; 90p (packets), 2bdp; 125KB, 10MB (decimal),
# 64KiB (binary); 1%. What is left out has a default; `cwndlab help experiment-file` lists every key.
# `cwndlab dev schema` prints a JSON Schema with which an editor completes and checks this file.

format: 1                             # of this file; left out: the one that cwndlab reads
experiment: newreno-versus-cubic      # names the results: letters, digits, - and _
question: Which of the two fills a 10 Mbps path better, and how long do packets wait?
answers:                              # the report begins with them; left out: what differs most
  - {metric: goodput_mbps, better: higher}
  - {metric: rtt_p95_ms, better: lower}
duration: 60s                         # length of each run

hosts:
  a:                                  # names are free; one line for each host is enough
    stack: freebsd-13                 # also freebsd-9.2, linux-3.9, linux-6.8, ...; plain linux is the newest
    cc: newreno                       # as the system names it; left out: the system's default
    sndbuf: 600KB                     # SO_SNDBUF; left out: autotuning
    # sysctl: {net.inet.tcp.abc_l_var: 2}     # real names; an unknown one is refused
  b:
    stack: freebsd-13
    rcvbuf: 600KB

network:
  dumbbell:                           # also star, chain, or nodes and links
    left: [a]
    right: [b]
    access: {rate: 1gbit}             # every host's own cable
    bottleneck:
      rate: 10mbit
      delay: 20ms                     # one way; the other way has the same unless `reverse` says so
      queue: {kind: pfifo, limit: 90p}        # 90 packets waiting; also 125KB with bfifo, or 2bdp
      # loss: {random: 0.1%}

flows:
  - {name: f1, from: a, to: b, app: bulk, start: 0s}
  # - {name: f2, from: a, to: b, app: bulk, start: 20s, stop: 40s}

sweep:                                # what to vary: every combination is run
  - hosts.a.cc: [newreno, cubic]
  - network.dumbbell.bottleneck.delay: [5ms, 20ms, 50ms]

repeat: 2                             # runs of each combination; left out: 5 where something is drawn, else 1
seed: 1                               # the same seed gives the same runs, to the byte
measure: {from: 10s}                  # what the summary covers: here without the first 10 s
record: {tcp: 10ms, queue: 10ms, pcap: false}   # tcp: per-ack records every acknowledgement
"""
