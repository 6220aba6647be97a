"""Experiments carried out: plans cut into parts, tasks, executors, and the course of a whole experiment."""
