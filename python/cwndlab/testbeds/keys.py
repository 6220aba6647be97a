"""Keys of the schema that several testbeds carry out, by section (`Section.section`)."""


def keys(text: str) -> frozenset[str]:
    """The keys of a text."""
    return frozenset(text.split())


EXPERIMENT = keys(
    "format experiment description question answers duration hosts network flows repeat seed start_jitter"
    " phase_jitter measure record metrics expect pause order"
)
"""`pause` and `order` change nothing of what is modelled, and are taken so that one file serves all."""

PATH = {
    "network": keys("dumbbell star chain nodes links switch_of family"),
    "link": keys("rate delay queue loss duplicate corrupt jitter shaper mtu overhead schedule reverse"),
    "cable": keys(
        "name from to one_way bottleneck"
        " rate delay queue loss duplicate corrupt jitter shaper mtu overhead schedule reverse"
    ),
    "schedule": keys("at set"),
    "change": keys("rate delay loss queue down"),
}
"""Keys that the engine's path carries out, in virtual and in real time."""
