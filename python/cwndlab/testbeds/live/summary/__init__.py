"""The end of a live run: tables, the summary, and what to doubt."""
