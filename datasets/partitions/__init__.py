"""Partition rules: every module here registers one family."""
