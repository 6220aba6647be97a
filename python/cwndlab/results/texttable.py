"""Tables of text for a terminal: which keys tell rows apart, short names for them, columns of equal width."""

from collections.abc import Mapping, Sequence

from cwndlab.text import printable

WIDEST = 24
"""Characters of a cell of text; a longer one loses its middle."""

GAP = "  "


def telling(keys: Sequence[str], rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys, in order, without those that the ones before determine: a `zip` sweeps many together."""
    chosen: list[str] = []
    for key in keys:
        known: dict[tuple[str, ...], str] = {}
        if any(known.setdefault(tuple(row[name] for name in chosen), row[key]) != row[key] for row in rows):
            chosen.append(key)
    return chosen


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The shortest ends of dotted names that tell them apart."""
    short = {}
    for name in names:
        words = name.split(".")
        others = [other for other in names if other != name]
        for count in range(1, len(words) + 1):
            short[name] = ".".join(words[-count:])
            if not any(f".{other}".endswith(f".{short[name]}") for other in others):
                break
    return short


def shortened(texts: Sequence[str]) -> list[str]:
    """The texts, long ones without their middle; as much of it stays as tells them apart."""
    longest = max(map(len, texts), default=0)
    for width in range(WIDEST, longest + 1):
        cut = {text: without_middle(text, width) for text in texts}
        if len(set(cut.values())) == len(cut):
            return [cut[text] for text in texts]
    return list(texts)


def without_middle(text: str, width: int) -> str:
    """At most `width` characters of a text, from both of its ends."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def aligned(cells: Sequence[str], *, right: bool, whole: bool = False) -> list[str]:
    """The cells of a column, shortened unless `whole`, and padded to the same width."""
    texts = [printable(cell) for cell in cells]
    cut = texts if whole else shortened(texts)
    width = max(map(len, cut))
    return [cell.rjust(width) if right else cell.ljust(width) for cell in cut]


def lines(columns: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns side by side, as lines."""
    return [GAP.join(cells).rstrip() for cells in zip(*columns, strict=True)]
