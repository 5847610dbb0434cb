"""The one exception that means "the user can fix this": one line, exit code 2, no traceback."""


class UserError(Exception):
    """Bad input, named with its file, line, option or value and the way out."""
