"""The training loop, its state, checkpoints and logs."""
