"""Suite files and the options of the trainer."""
