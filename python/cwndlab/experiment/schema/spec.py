"""The whole of an experiment file, and what it says of measuring and recording."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, model_validator

from cwndlab.experiment import condition, expression, units
from cwndlab.experiment.condition import Condition
from cwndlab.experiment.expression import Expression
from cwndlab.experiment.schema.flows import Flow
from cwndlab.experiment.schema.hosts import Host
from cwndlab.experiment.schema.leaves import (
    FORMAT,
    MAX_REPEAT,
    Interval,
    Name,
    Rate,
    SomeBytes,
    Text,
    Time,
    format_,
    free_text,
    integer,
    leaf,
    sampling,
    shape,
    word,
)
from cwndlab.experiment.schema.links import Network
from cwndlab.experiment.schema.section import Section, about, required
from cwndlab.experiment.units import BadValue


class Measure(Section):
    """Part of a run that the summary covers."""

    section: ClassVar[str] = "measure"
    from_: Time = about("start of the window", 0, alias="from")
    to: Time | None = about("end of the window; default the end of the run")
    time_to: Rate | None = about("rate that `time_to_rate_s` waits for, such as 100mbit")


class CapturePoint(Section):
    """A packet capture."""

    section: ClassVar[str] = "capture"
    at: Annotated[
        str,
        *leaf(free_text, str, {"type": "string", "description": "a host, or a link such as bottleneck"}),
    ] = required("host or link")
    snaplen: Annotated[int, *integer(40, 65535)] = about(
        "bytes kept of each packet, from the IP header on", 128
    )


def _capture_points(value: Any) -> Any:
    """Let ``true`` stand for every host, ``false`` for none, and a name for its capture point."""
    if isinstance(value, str):
        return [{"at": "*"}] if units.parse_bool(value) else []
    if not isinstance(value, list):
        raise BadValue(shape(value), "true, false or a list of hosts and links")
    return [{"at": item} if isinstance(item, str) else item for item in value]


class Record(Section):
    """Data that are recorded, besides events and samples, which always are."""

    section: ClassVar[str] = "record"
    tcp: Annotated[int | str, *sampling("per-ack")] = about("rows of the tcp table", 10**7)
    queue: Annotated[int | str, *sampling("per-change")] = about("rows of the queue table", 10**7)
    pcap: Annotated[list[CapturePoint], BeforeValidator(_capture_points)] = about(
        "packet captures: true for all hosts, or a list of hosts and links", []
    )
    limit: SomeBytes | None = about("bytes of each capture and each table of a run at most; default 4GB")


Logger = Annotated[
    str,
    *word(
        "tcp_info", "siftr", "siftr2", "tcp_probe", "web10g", "ss", "queue", "pcap", "iperf3", "ping", "cpu"
    ),
]


Expected = Annotated[
    Condition,
    *leaf(
        condition.parse,
        condition.write,
        {"type": "string", "description": condition.FORM},
    ),
]


Own = Annotated[
    Expression,
    *leaf(
        expression.parse,
        expression.write,
        {"type": "string", "description": expression.FORM},
    ),
]


class Answer(Section):
    """A metric that answers the question."""

    section: ClassVar[str] = "answers"
    metric: Text = required("column of the summary, such as rtt_p50_ms")
    better: Annotated[str, *word("lower", "higher")] | None = about("which way is better")
    by: Text | None = about("swept key whose values are compared; default the first that is no quantity")


class Format(BaseModel):
    """The version of an experiment file, whatever else it says."""

    format: Annotated[int, *format_()] = FORMAT


class Spec(Section):
    """An experiment file without its sweep."""

    section: ClassVar[str] = "experiment"
    ruled = frozenset({"hosts", "flows"})
    of_testbeds: ClassVar[dict[str, type[Section]]] = {}
    """The sections that testbeds bring, which are theirs alone, by key."""
    format: Annotated[int, *format_()] = about("version of the form of this file", FORMAT)
    experiment: Name = required("name of the experiment")
    description: Text | None = about("what it is about, in a sentence or two")
    question: Text | None = about("what it asks, in a sentence: the report begins with its answer")
    answers: list[Answer] | None = about("metrics that answer the question; default those that differ most")
    duration: Interval = required("length of a run")
    hosts: dict[Name, Host] = required("end hosts")
    network: Network = required("the path between them")
    flows: list[Flow] = required("flows")
    repeat: Annotated[int, *integer(1, MAX_REPEAT)] | None = about(
        "runs of each cell; default 5 where anything is drawn, else 1"
    )
    seed: Annotated[int, *integer(0, 2**63 - 1)] = about("seed of every random stream", 1)
    start_jitter: Time | None = about(
        "a flow's start is drawn from start … start + this; default one base RTT"
    )
    phase_jitter: Time | None = about(
        "a host's packets are delayed by a draw from 0 … this, the same for all of a run; default with"
        " `repeat` above 1 the time of a packet at the slowest link of its flows, else 0"
    )
    measure: Measure = about("what the summary covers; default all", Measure.unset())
    record: Record = about("what is recorded", Record.unset())
    loggers: list[Logger] | None = about("what runs beside the traffic on live testbeds")
    pause: Time | None = about("time between runs on live testbeds")
    metrics: dict[str, Own] = about("metrics of one's own, as expressions over others and over series", {})
    expect: dict[str, Expected] = about("what metrics have to be: pass or fail in each cell", {})
    order: Annotated[str, *word("randomised", "listed")] | None = about("order of runs on live testbeds")

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the keys a file may use, with the sweep, which is taken out before."""
        return (*super().known_keys(), "sweep")

    @model_validator(mode="after")
    def _something_to_do(self) -> Spec:
        for key, value in (("hosts", self.hosts), ("flows", self.flows)):
            if not value:
                raise BadValue("none", "at least one", key=key)
        return self
