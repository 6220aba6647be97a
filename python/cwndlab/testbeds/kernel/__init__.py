"""A real Linux kernel in virtual time: User Mode Linux with time travel, one guest a run, the lab inside."""
