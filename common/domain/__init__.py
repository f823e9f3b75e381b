"""The decisions of the product, as pure functions over frozen values.

Imports the standard library only: no asyncio, no I/O, no logging, no client, no clock.
"""
