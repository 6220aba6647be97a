"""The experiment that tests of all kinds begin with, as a text: a dumbbell with one host at either end."""


def dumbbell(
    name: str,
    *,
    duration: str,
    a: str,
    b: str | None = None,
    c: str | None = None,
    bottleneck: str,
    flow: str = "name: f1, from: a, to: b, app: bulk",
    access: str = "1gbit",
    more: str = "",
) -> str:
    """Host `a` left, beside it `c` if that is given, host `b` (default: as `a`) right, one flow; each is the
    inside of a mapping of the experiment file, `more` what follows."""
    third = "" if c is None else f"  c: {{{c}}}\n"
    return f"""\
experiment: {name}
duration: {duration}
hosts:
  a: {{{a}}}
  b: {{{a if b is None else b}}}
{third}network:
  dumbbell:
    left: [{"a" if c is None else "a, c"}]
    right: [b]
    access: {{rate: {access}}}
    bottleneck: {{{bottleneck}}}
flows:
  - {{{flow}}}
{more}"""
