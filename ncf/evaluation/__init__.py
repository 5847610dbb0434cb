"""Hit rate and NDCG, full ranking, and timed inference."""
