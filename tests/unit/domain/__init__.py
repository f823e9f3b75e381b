"""The decisions, one behaviour a test, on values from `tests.support.builders`."""
