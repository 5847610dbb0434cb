"""The machine: processor, GPUs, telemetry, and what can disturb a run."""
