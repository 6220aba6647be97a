"""Constants of a congestion control in the schema, made from the engine's table of them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.schema.parameters import union
from cwndlab.experiment.schema.section import Section


class Constants(Section):
    """Constants of a built-in congestion control that an experiment changes."""

    section: ClassVar[str] = "cc_params"


_MODEL = union(Constants, catalogue().cc_params.values())


class _Made:
    """Annotates the base class: a value is of the class that the table makes."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of that class."""
        return handler.generate_schema(_MODEL)


CcParams = Annotated[Constants, _Made()]
"""A key that holds such constants."""
