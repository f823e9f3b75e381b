"""Certificates: issued, checked, and swapped under a running server."""
