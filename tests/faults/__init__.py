"""What breaks, one thing at a time, under load: the table of faults, how each is staged, and an auditor of its own."""
