"""Flows of the schema, and the applications that send them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, model_validator

from cwndlab.errors import shown
from cwndlab.experiment import units
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.schema.cc_params import CcParams
from cwndlab.experiment.schema.leaves import (
    MAX_COUNT,
    Buffer,
    Endpoint,
    Name,
    SomeBytes,
    Time,
    Word,
    integer,
)
from cwndlab.experiment.schema.parameters import Kinded, OneOfKinds, models
from cwndlab.experiment.schema.section import Section, about, kind_alone, required
from cwndlab.experiment.units import BadValue


class AnyApp(Kinded):
    """An application of any kind."""

    section: ClassVar[str] = "app"


_MODELS = models(AnyApp, catalogue().apps.values())
App = Annotated[AnyApp, OneOfKinds(_MODELS.values()), BeforeValidator(kind_alone)]
"""A key that holds an application."""
BULK = _MODELS["bulk"](kind="bulk")
"""The application of a flow that names none."""


class Flow(Section):
    """One flow, or several alike."""

    section: ClassVar[str] = "flow"
    ruled = frozenset({"start", "stop"})
    name: Name | None = about("name; default f1, f2, … by its place in the list")
    from_: Endpoint = required("host that opens the connection and sends", alias="from")
    to: Endpoint = required("host that accepts and receives")
    app: App = about("what the application does", BULK)
    start: Time = about("when the connection is opened, before start_jitter", 0)
    stop: Time | None = about("when it stops sending; default the end of the run")
    bytes: SomeBytes | None = about("payload bytes after which it stops")
    cc: Word | None = about("congestion control of the sender; default the host's")
    cc_params: CcParams | None = about("constants of that congestion control; default the host's")
    sndbuf: Buffer | None = about("SO_SNDBUF of the sender; default the host's")
    rcvbuf: Buffer | None = about("SO_RCVBUF of the receiver; default the host's")
    count: Annotated[int, *integer(1, MAX_COUNT)] = about("flows of this kind, named NAME.1, NAME.2, …", 1)
    stagger: Time = about("time between the starts of these flows", 0)

    @model_validator(mode="after")
    def _stops_after_start(self) -> Flow:
        if self.stop is not None and self.stop <= self.start:
            raise BadValue(
                shown(units.format_time(self.stop)),
                f"a time after start, {units.format_time(self.start)}",
                key="stop",
            )
        return self
