"""One room per concern: each turns a key of the work queue into planned actions and carries them out.

May import the reconciler's shell and common; decides nothing that a planner in common.domain could.
"""
