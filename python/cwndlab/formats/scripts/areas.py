"""The area of a script, by its words: the areas in which a collection's results are counted."""

import re

#: Area, and what its scripts speak of in their paths or comments; the first that fits is the script's.
AREAS: tuple[tuple[str, str], ...] = (
    ("RACK", r"\brack\b"),
    ("TLP", r"\btlp\b|loss[ _-]probe|early[ _-]retrans"),
    ("ECN", r"\becn\b|\bece\b|\bcwr\b"),
    ("RTO", r"\brto\b|\bf-?rto\b|retransmission timeout|retransmit(ted)? timeout|syn-with|snd-syn"),
    ("SACK", r"\bd?sack\b|overlapping|reordering"),
    ("loss recovery", r"fast[ _-](recovery|retransmit)|\bprr\b|limited[ _-]transmit|recovery"),
    ("congestion control", r"slow[ _-]start|\bcubic\b|\breno\b|\bcwnd\b|hystart|congestion"),
    ("timestamps", r"ts[ _-]recent|\bpaws\b|tsval|timestamps?\b|tsopt"),
    (
        "window handling",
        r"\brwnd\b|zero[ _-]window|win(dow)?[ _-]update|receive window|\brcvbuf\b|sndbuf|\bmss\b|maxseg",
    ),
    ("ACK policy", r"delayed ack|quick ?ack|\bnagle\b|ack[ _-]policy|delacktime"),
    ("connection states", r"state-event-engine|/(close|shutdown|snippets|validate)/|\bsyn\b|\bfin\b|\brst\b"),
)

#: Where nothing fits.
OTHER = "sockets and other"


def area(path: str, text: str) -> str:
    """The area of the script at `path`: by its directory and name, else by its first comment."""
    comments = " ".join(re.findall(r"^\s*//(.*)", text, re.MULTILINE)[:60])
    for where in (f"/{path}".lower(), _without_licence(comments).lower()):
        for name, words in AREAS:
            if re.search(words, where.replace("_", "-") if where.startswith("/") else where):
                return name
    return OTHER


def _without_licence(comments: str) -> str:
    return comments.rpartition("SUCH DAMAGE.")[2]
