"""The course of a run in real time, which all live testbeds share, whatever machines it is on."""
