"""Starting, watching and ending processes; knows nothing of suites."""
