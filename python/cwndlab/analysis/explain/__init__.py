"""What limited a connection, the path it saw, what fits, and what would change it: from a capture or log."""
