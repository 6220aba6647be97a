"""Queue disciplines of the schema: parameters under their Linux tc names; what is left out is as in Linux."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.schema.parameters import Kinded, OneOfKinds, models
from cwndlab.experiment.schema.section import kind_alone


class AnyQueue(Kinded):
    """A queue discipline of any kind."""

    section: ClassVar[str] = "queue"


_MODELS = models(AnyQueue, catalogue().queues.values())
Queue = Annotated[AnyQueue, OneOfKinds(_MODELS.values()), BeforeValidator(kind_alone)]
"""A key that holds a queue discipline."""
PFIFO = _MODELS["pfifo"](kind="pfifo")
"""The discipline of a link that names none."""
