"""From recorded counters and series to the figures that answer a question."""
