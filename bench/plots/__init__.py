"""Pictures, drawn from grouped runs."""
