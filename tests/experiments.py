"""The experiment that tests of all kinds begin with, as a text: a dumbbell with one host at either end."""


def dumbbell(
    name: str, *, duration: str, a: str, b: str, bottleneck: str, flow: str, access: str = "1gbit"
) -> str:
    """Host `a` left, host `b` right, one flow; each is the inside of a mapping of the experiment file."""
    return f"""\
experiment: {name}
duration: {duration}
hosts:
  a: {{{a}}}
  b: {{{b}}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {{rate: {access}}}
    bottleneck: {{{bottleneck}}}
flows:
  - {{{flow}}}
"""
