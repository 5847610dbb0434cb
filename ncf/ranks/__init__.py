"""Several processes as one job: Horovod, and a watchdog for ranks that stall."""
