"""The environment of a run: versions, threads, memory pages, a hash of its code."""
