"""The tests, from the inside out, and the programs that show the product at work.

May import everything; nothing imports it.
"""
