"""Traffic between machines: our agent at each, or common tools where it is not."""
