"""What the product costs and how fast it is, measured beside the ordinary ways in one run: `python -m tests.bench`.

Nothing here asserts a time. Every figure is a ratio within one run, or stands beside what the same machine managed
without us in that run, taken in turns (A B A B …), because hosts speed up and slow down.
"""
