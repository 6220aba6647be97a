"""Judging another sender's window by a reference that is fed with what the sender saw."""
