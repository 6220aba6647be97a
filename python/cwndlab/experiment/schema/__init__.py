"""The schema of experiment files: every key, its type, its meaning.

Files arrive here as text, lists and dictionaries (`yaml_nodes.plain`); models hold integers in the base
units of `units`. The schema is complete whether or not a testbed carries a key out: `support` says which
do. Names that come from the engine (stacks, congestion controls, sysctls) are checked by `scenario`.
"""

from cwndlab.experiment.schema.flows import (
    LOAD_SCENARIOS,
    App,
    Background,
    Bulk,
    Cbr,
    Flow,
    Incast,
    LoadLatency,
    OnOff,
    Ping,
    RateLimited,
    Voip,
)
from cwndlab.experiment.schema.hosts import Egress, Host, Ingress, IngressStage, Nic, Noise
from cwndlab.experiment.schema.impairments import Jitter, Loss, Match
from cwndlab.experiment.schema.links import Chain, Dumbbell, Link, Network, Reversible, Settings, Star, Switch
from cwndlab.experiment.schema.queues import AnyQueue, Bfifo, Cake, FqCodel, FqPie, Pfifo, Red
from cwndlab.experiment.schema.section import Section
from cwndlab.experiment.schema.spec import Spec

__all__ = [
    "LOAD_SCENARIOS",
    "AnyQueue",
    "App",
    "Background",
    "Bfifo",
    "Bulk",
    "Cake",
    "Cbr",
    "Chain",
    "Dumbbell",
    "Egress",
    "Flow",
    "FqCodel",
    "FqPie",
    "Host",
    "Incast",
    "Ingress",
    "IngressStage",
    "Jitter",
    "Link",
    "LoadLatency",
    "Loss",
    "Match",
    "Network",
    "Nic",
    "Noise",
    "OnOff",
    "Pfifo",
    "Ping",
    "RateLimited",
    "Red",
    "Reversible",
    "Section",
    "Settings",
    "Spec",
    "Star",
    "Switch",
    "Voip",
]
