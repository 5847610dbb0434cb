"""Statistics of runs: numbers in, numbers out."""
