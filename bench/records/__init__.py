"""Attempts as stored: their schema, store, checks and identity."""
