"""Planning and making the runs of a suite."""
