"""The way from recorded counters and series to the metrics that answer a question."""
