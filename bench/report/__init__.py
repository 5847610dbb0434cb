"""A suite's report: which tables and texts, in which order."""
