"""One behaviour at a time, mirroring the source tree; the whole folder runs in seconds.

Must not open a socket, start a process or read a clock.
"""
