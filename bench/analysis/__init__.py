"""From records to numbers: groups of poolable runs, metrics, contrasts, labels."""
