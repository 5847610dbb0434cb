"""What a run finds around it: versions, threads, memory pages, its own code."""
