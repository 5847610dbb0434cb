"""From numbered ratings to a prepared data folder, and back into memory."""
