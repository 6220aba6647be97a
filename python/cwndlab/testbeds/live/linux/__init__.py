"""Linux as the system of live hosts."""
