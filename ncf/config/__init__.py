"""Options of the commands, typed and checked."""
