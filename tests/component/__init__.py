"""One of our processes, or one adapter, against the real control plane.

Must not patch names of our modules; waits poll a condition with a deadline.
"""
