"""The common part of all sections of the schema: known keys only, and which of them a file wrote."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails

from cwndlab.errors import one_of, shown
from cwndlab.experiment import hints
from cwndlab.experiment.schema.leaves import shape
from cwndlab.experiment.units import BadValue, NotSingle


class Section(BaseModel):
    """A mapping of known keys. ``section`` names it in what a testbed publishes as carried out."""

    model_config = ConfigDict(
        frozen=True, arbitrary_types_allowed=True, populate_by_name=False, defer_build=True
    )
    section: ClassVar[str] = ""
    ruled: ClassVar[frozenset[str]] = frozenset()
    """Fields of which a rule looks at several together."""

    @model_validator(mode="wrap")
    @classmethod
    def _known_keys(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, dict):
            hint = hints.single(cls.section, value) if isinstance(value, str) else None
            raise BadValue(shape(value), f"a mapping with {one_of(cls.known_keys())}", hint)
        known = {key: node for key, node in value.items() if key in cls.known_keys()}
        if len(known) == len(value):
            return handler(value)
        faults = [_unknown(key, cls.known_keys()) for key in value if key not in known]
        try:
            handler(known)
        except ValidationError as error:
            faults += [cast(InitErrorDetails, fault) for fault in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(cls.__name__, faults)

    @classmethod
    def unset(cls) -> Self:
        """Return the section of a file that writes nothing of it, which builds no validator of its own."""
        return cast(Self, cls.model_construct())

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the keys a file may use here, in order."""
        return tuple(_keys_by_name(cls).values())

    def copied(self, update: Mapping[str, Any], written: Iterable[str] | None = None) -> Self:
        """Return a copy with other values of some fields, which are not checked again.

        `written` are those of these fields that the file wrote, by default all.
        """
        there = self.model_fields_set - update.keys()
        there.update(update if written is None else written)
        made = self.__new__(type(self))
        put = object.__setattr__
        put(made, "__dict__", {**self.__dict__, **update})
        put(made, "__pydantic_fields_set__", there)
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    def written(self) -> list[tuple[str, Any]]:
        """Return the keys the file wrote and their values, in the order of the schema."""
        there = self.model_fields_set
        return [
            (key, getattr(self, name)) for name, key in _keys_by_name(type(self)).items() if name in there
        ]


def _unknown(key: str, known: tuple[str, ...]) -> InitErrorDetails:
    """The fault of a key that no section like this has."""
    found, hint = f"the unknown key {shown(key)}", hints.word(key, known)
    bad = BadValue(found, one_of(known), hint, key=key, of_key=True)
    return InitErrorDetails(type="value_error", loc=(), input=key, ctx={"error": bad})


@functools.cache
def _keys_by_name(section: type[Section]) -> dict[str, str]:
    """The keys of a section as a file writes them, by the names of the fields; asked for in every cell."""
    return {name: spec.alias or name for name, spec in section.model_fields.items()}


def about(text: str, default: Any = None, **more: Any) -> Any:
    """A key that may be left out, and what it is about."""
    return Field(default=default, description=text, **more)


def required(text: str, **more: Any) -> Any:
    """A key that has to be there, and what it is about."""
    return Field(description=text, **more)


class OneOf(Section):
    """A mapping with exactly one of its keys."""

    @model_validator(mode="after")
    def _exactly_one(self) -> OneOf:
        if len(self.model_fields_set) != 1:
            found = " and ".join(key for key, _ in self.written()) or "nothing"
            raise BadValue(found, f"exactly {one_of(self.known_keys())}")
        return self


def kind_alone(value: Any) -> Any:
    """Let ``codel`` stand for ``{kind: codel}``."""
    if isinstance(value, str) and value:
        return {"kind": value}
    if not isinstance(value, dict):
        raise NotSingle(shape(value), "a kind, or a mapping with a kind")
    return value
