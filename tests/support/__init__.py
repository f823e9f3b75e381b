"""Builders, fakes of our ports and Hypothesis strategies that the test folders share.

Must not import a test module.
"""
