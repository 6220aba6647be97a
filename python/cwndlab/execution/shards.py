"""A share of a sweep, for job arrays: which of a plan's parts are in it, and what it is called."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cwndlab.errors import InputError, shown
from cwndlab.results.parts import Part


@dataclass(frozen=True)
class Shard:
    """The `number`th of `count` shares of a plan, from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str, where: str = "--shard") -> "Shard":
        """The shard that `I/N` names; raises InputError that says where, for any other text."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        shard = cls(int(found[1]), int(found[2])) if found else None
        if shard is None or not 1 <= shard.number <= shard.count:
            raise InputError(f"{where}: found {shown(text)}; expected I/N with I from 1 to N, such as 3/10")
        return shard

    def __str__(self) -> str:
        """Format the shard as it is given: `3/10`."""
        return f"{self.number}/{self.count}"

    @property
    def directory(self) -> str:
        """Name of the shard's directory after the experiment's name, such that shards sort by number."""
        return f"shard-{self.number:0{len(str(self.count))}}-of-{self.count}"

    def of(self, cut: Sequence[Part]) -> list[Part]:
        """Parts of the shard: every `count`th, as neighbours in a sweep cost about the same."""
        return list(cut[self.number - 1 :: self.count])
