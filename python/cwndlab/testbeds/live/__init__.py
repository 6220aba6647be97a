"""What live testbeds have in common: the course of a run in real time, whatever machines it is on."""
