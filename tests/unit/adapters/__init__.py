"""Tests of common.adapters."""
