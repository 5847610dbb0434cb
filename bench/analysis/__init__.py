"""From records to numbers: groups of poolable runs, measures, contrasts, labels."""
