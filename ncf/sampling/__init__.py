"""Training batches: positives, negatives, and which rank draws them."""
