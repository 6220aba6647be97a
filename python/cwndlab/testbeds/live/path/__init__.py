"""Links between live hosts: what carries packets, and what makes links."""
