"""Rules that must hold for every input, with Hypothesis.

Must not open a socket, start a process or read a clock.
"""
