"""The metrics of a summary, one a line: name, words, unit, and what else is known of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Value = int | float | str | None
"""A cell of the summary; None is a metric that does not exist, written as an empty field."""

LACKING = "has no value"
"""Words for a side of a comparison that has none of a metric."""

UNFINISHED = "did not complete"
"""Words for a side of a comparison of which some transfer had not ended when its run did."""

NEVER = "never got there"
"""Words for a side of a comparison that never reached what a time is counted to."""


@dataclass(frozen=True)
class Metric:
    """A column of the summary behind those that name the row."""

    name: str
    words: str
    """Name in words, for axes and heads of tables."""
    unit: str = ""
    factor: float = 1.0
    """Factor from the unit of the summary to the one in which the metric is shown."""
    kind: Literal["float", "count", "word"] = "float"
    """Floats have six significant digits."""
    better: Literal["higher", "lower"] | None = None
    """Better direction. None where that depends on the question."""
    of: Literal["flow", "tcp", "run"] = "flow"
    """Level at which the metric exists: every flow, TCP connections only, or several flows together, which
    all have the same value.
    """
    over: Literal["mean", "share", "sum", "min", "max"] = "mean"
    """Statistic of the metric over the several flows of a run. `share`: part of all segments that they sent,
    the mean weighted by these.
    """
    head: str = ""
    """Heading of the metric in a table for a terminal; a metric without one is shown there only if it is
    asked for.
    """
    room: int = 99
    """Order in which metrics are given room there, the lowest first."""
    choice: int = 0
    """Place among those that are compared where none is named; 0: not among them."""
    signed: bool = False
    """Whether it may be below 0, so that differences are not told as shares of it."""
    lacking: str = LACKING
    """Words for a side of a comparison that has none of the metric."""

    @property
    def adds_up(self) -> bool:
        """Whether it is a rate over the time that a flow was active, and so adds up only over one time."""
        return self.over == "sum" and self.unit == "Mbit/s"

    @property
    def averages(self) -> bool:
        """Whether a run's value stands between those of its flows, and so mixes what these are."""
        return self.over in ("mean", "share")

    @property
    def most(self) -> float | None:
        """The largest value there can be, in the unit of the summary. None where there is no such."""
        if self.unit == "%":
            return 100 / self.factor
        return 1 if self.name.startswith("jain") else None


METRICS = (
    Metric("stack", "stack", kind="word"),
    Metric("cc", "congestion control", kind="word", of="tcp"),
    Metric("app", "application", kind="word"),
    Metric("goodput_mbps", "goodput", "Mbit/s", better="higher", over="sum", head="goodput", room=6, choice=1),
    Metric("sender_mbps", "goodput as the sender counts", "Mbit/s", better="higher", over="sum"),
    Metric("throughput_mbps", "throughput", "Mbit/s", better="higher", over="sum", head="throughput", room=18, choice=2),
    Metric("utilisation", "utilisation of the bottleneck", "%", 100, better="higher", over="sum", head="util", room=7),
    Metric("retransmit_rate", "segments retransmitted", "%", 100, better="lower", of="tcp", over="share", head="retrans", room=8),
    Metric("drop_rate", "packets dropped", "%", 100, better="lower", over="share", head="drops", room=17),
    Metric("ce_marks", "CE marks", "packets", kind="count", over="sum", head="CE marks", room=19),
    Metric("rtos", "retransmission timeouts", kind="count", better="lower", of="tcp", over="sum", head="RTOs", room=14),
    Metric("fast_recoveries", "fast recoveries", kind="count", of="tcp", over="sum", head="recov", room=13),
    Metric("cycle_s", "congestion epoch", "s", of="tcp", head="cycle", room=15),
    Metric("rtt_min_ms", "RTT, minimum", "ms", better="lower", over="min", head="RTT min", room=21),
    Metric("rtt_mean_ms", "RTT, mean", "ms", better="lower", head="RTT mean", room=22, choice=5),
    Metric("rtt_p50_ms", "RTT, median", "ms", better="lower", head="RTT p50", room=9),
    Metric("rtt_p95_ms", "RTT, 95th percentile", "ms", better="lower", head="RTT p95", room=10),
    Metric("rtt_max_ms", "RTT, maximum", "ms", better="lower", over="max", head="RTT max", room=23),
    Metric("queue_delay_p50_ms", "queueing delay, median", "ms", better="lower", head="qdelay p50", room=40),
    Metric("queue_delay_p95_ms", "queueing delay, 95th percentile", "ms", better="lower", head="qdelay p95", room=16),
    Metric("queue_delay_max_ms", "queueing delay, maximum", "ms", better="lower", over="max", head="qdelay max", room=41),
    Metric("power", "Kleinrock's power", "Mbit/s²", better="higher", head="power", room=37),
    Metric("slow_start_exit_s", "end of slow start", "s", of="tcp", head="slow start", room=36),
    Metric("time_to_90_s", "time to fill 90 % of the bottleneck", "s", better="lower", of="run", head="filled", room=35, lacking=NEVER),
    Metric("time_to_rate_s", "time to reach the rate asked for", "s", better="lower", head="to rate", room=6, lacking=NEVER),
    Metric("cwnd_mean_bytes", "cwnd, mean", "kB", 1e-3, kind="count", of="tcp", head="cwnd", room=11, choice=6),
    Metric("cwnd_max_bytes", "cwnd, maximum", "kB", 1e-3, kind="count", of="tcp", over="max", head="cwnd max", room=20),
    Metric("srtt_mean_ms", "smoothed RTT of the sender's TCP, mean", "ms", better="lower", of="tcp", head="srtt", room=23),
    Metric("limited_by", "main limit", kind="word", of="tcp", head="limited by", room=8),
    Metric("limited_cwnd_pct", "limited by cwnd", "%", of="tcp", head="by cwnd", room=42),
    Metric("limited_path_pct", "limited by a full link", "%", of="tcp", head="by path", room=42),
    Metric("limited_rwnd_pct", "limited by the receiver's window", "%", of="tcp", head="by rwnd", room=43),
    Metric("limited_sndbuf_pct", "limited by the send buffer", "%", of="tcp", head="by sndbuf", room=44),
    Metric("limited_app_pct", "limited by the application", "%", of="tcp", head="by app", room=45),
    Metric("limited_host_pct", "limited by the processing of a host", "%", of="tcp", head="by host", room=45),
    Metric("limited_pacing_pct", "limited by pacing", "%", of="tcp", head="by pacing", room=45),
    Metric("held_bytes", "buffer that limits", "kB", 1e-3, kind="count", of="tcp", head="buffer", room=46),
    Metric("held_by", "what holds that buffer", kind="word", of="tcp", head="held by", room=46),
    Metric("completion_s", "completion time", "s", better="lower", over="max", head="completion", room=24, lacking=UNFINISHED),
    Metric("completion_p50_ms", "completion of transfers, median", "ms", better="lower", head="transfer p50", room=31),
    Metric("completion_p95_ms", "completion of transfers, 95th percentile", "ms", better="lower", head="transfer p95", room=32),
    Metric("response_p50_ms", "response time, median", "ms", better="lower", head="response p50", room=25, choice=3),
    Metric("response_p95_ms", "response time, 95th percentile", "ms", better="lower", head="response p95", room=26),
    Metric("round_p50_ms", "round of an incast, median", "ms", better="lower", head="round p50", room=27),
    Metric("round_p95_ms", "round of an incast, 95th percentile", "ms", better="lower", head="round p95", room=28),
    Metric("one_way_p50_ms", "one-way delay, median", "ms", better="lower", head="one-way p50", room=29, choice=4),
    Metric("one_way_p95_ms", "one-way delay, 95th percentile", "ms", better="lower", head="one-way p95", room=30),
    Metric("one_way_error_ms", "one-way delay, off by at most", "ms", over="max", head="one-way ±", room=30),
    Metric("mos", "mean opinion score", better="higher", head="MOS", room=33),
    Metric("mos_error", "mean opinion score, off by at most", over="max", head="MOS ±", room=34),
    Metric("stalled_s", "time stalled", "s", better="lower", head="stalled", room=33),
    Metric("load_scenario", "loadlatency scenario", kind="count"),
    Metric("upload_kib_s", "upload capacity", "KiB/s", better="higher", head="up", room=1),
    Metric("download_kib_s", "download capacity", "KiB/s", better="higher", head="down", room=2),
    Metric("responsiveness_hz", "responsiveness", "Hz", better="higher", head="respons", room=4),
    Metric("smoothness_hz", "smoothness", "Hz", better="higher", head="smooth", room=3),
    Metric("rpm", "round trips per minute (RPM)", better="higher", head="RPM", room=5),
    Metric("jain", "Jain's fairness index", better="higher", of="run", head="Jain", room=12),
    Metric("jain_1s_mean", "Jain's index over seconds, mean", better="higher", of="run", head="Jain 1s", room=38),
    Metric("jain_1s_min", "Jain's index over seconds, minimum", better="higher", of="run", head="Jain min", room=39),
    Metric("convergence_s", "time to converge", "s", better="lower", of="run", head="converged", room=34, lacking=NEVER),
    Metric("total_goodput_mbps", "goodput of all flows", "Mbit/s", better="higher", of="run", head="all goodput", room=12),
    Metric("total_rtt_mean_ms", "RTT of all flows, mean", "ms", better="lower", of="run", head="all RTT", room=12),
    Metric("total_retransmit_rate", "segments retransmitted, all flows", "%", 100, better="lower", of="run", head="all retrans", room=12),
    Metric("total_drop_rate", "packets dropped, all flows", "%", 100, better="lower", of="run", head="all drops", room=17),
    Metric("status", "status", kind="word"),
)  # fmt: skip
"""Metrics in the order of their columns."""

COMPARED = (
    Metric("mark_rate", "packets marked", "%", 100, of="run"),
    Metric("rtt_exponent", "exponent of goodput against base RTT", of="run", signed=True),
)
"""Metrics of a run as comparisons see it, which are no columns of the summary."""

BY_NAME = {metric.name: metric for metric in (*METRICS, *COMPARED)}

NAMES = tuple(metric.name for metric in METRICS)


def names(which: Callable[[Metric], object]) -> tuple[str, ...]:
    """The names of the metrics of which that is true, in the order of their columns."""
    return tuple(metric.name for metric in METRICS if which(metric))


NUMBERS = names(lambda metric: metric.kind != "word")

COUNTS = names(lambda metric: metric.kind == "count")
"""The metrics that are whole numbers."""

TOTALS = names(lambda metric: metric.name.startswith("total_"))
"""The metrics of all flows of a run together."""

SHOWN = {metric.name: metric for metric in sorted(METRICS, key=lambda metric: metric.room) if metric.head}
"""The metrics of a table for a terminal, in the order in which they are given room."""

FIRST_CHOICE = tuple(metric.name for metric in sorted(METRICS, key=lambda each: each.choice) if metric.choice)
"""The metric that is compared where none is named: the first of these that both sides have.

One, so that a look at every metric is a choice, and is corrected for."""

BESIDE_MARKS = ("mark_rate", "queue_delay_p50_ms", "queue_delay_p95_ms", "rtt_exponent")
"""Metrics that are compared beside it where packets were marked, those that there are: a scalable congestion
control may have its goodput at the price of the others."""
