"""packetdrill scripts against stacks, alone or a collection of them: what `cwndlab dev script` does."""
