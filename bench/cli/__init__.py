"""The commands, one module each: options in, library calls, text and exit code out."""
