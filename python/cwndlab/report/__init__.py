"""Results shown: plots, the report, pages, notebooks, the live page, and the Python interface."""
