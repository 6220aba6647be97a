"""The path between machines: links that routers make, and our emulator at one."""
