"""Every format of other tools, one file each: what their files say, as runs with our tables and metrics."""
