"""Scenarios: what a run is, with every name known and every number an integer; and the plan made of them."""
