"""The chart as it is rendered and run, and what is generated from it and beside it: `python -m tests.chart`."""
