"""Traffic between machines: cwndlab's agent at each, or common tools where it is not."""
