"""The path between machines: links that routers make, and cwndlab's emulator at one."""
