"""Machines of a lab: the lab file's, reached, taken for a run, changed and given back."""
