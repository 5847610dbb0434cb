"""Verdicts of new runs against a baseline."""
