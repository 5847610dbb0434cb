"""NeuMF: its reference and fast formulations, optimizer and precision."""
