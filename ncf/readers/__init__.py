"""Files of ratings, in whatever form, into numbered rows."""
