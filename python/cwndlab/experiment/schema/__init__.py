"""The schema of experiment files: every key, its type, its meaning.

Files arrive here as text, lists and dictionaries (`yaml_nodes.plain`); models hold integers in the base
units of `units`. The schema is complete whether or not a testbed carries a key out: `support` says which
do. Queue disciplines and applications are made from the engine's table of them; names of stacks, congestion
controls and sysctls are checked by `scenario`.
"""

from cwndlab.experiment.schema.flows import AnyApp, App, Flow
from cwndlab.experiment.schema.hosts import Egress, Host, Ingress, IngressStage, Nic, Noise
from cwndlab.experiment.schema.impairments import Jitter, Loss, Match
from cwndlab.experiment.schema.links import (
    Cable,
    Chain,
    Dumbbell,
    Link,
    Network,
    Occasion,
    Reversible,
    Settings,
    Shaper,
    Star,
    Switch,
)
from cwndlab.experiment.schema.queues import PFIFO, AnyQueue
from cwndlab.experiment.schema.section import Section
from cwndlab.experiment.schema.spec import Format, Spec

__all__ = [
    "PFIFO",
    "AnyApp",
    "AnyQueue",
    "App",
    "Cable",
    "Chain",
    "Dumbbell",
    "Egress",
    "Flow",
    "Format",
    "Host",
    "Ingress",
    "IngressStage",
    "Jitter",
    "Link",
    "Loss",
    "Match",
    "Network",
    "Nic",
    "Noise",
    "Occasion",
    "Reversible",
    "Section",
    "Settings",
    "Shaper",
    "Spec",
    "Star",
    "Switch",
]
