"""Several processes as one job: Horovod, and a watch on ranks that stall."""
