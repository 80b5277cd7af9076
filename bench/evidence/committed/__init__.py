"""Runs that are committed with the code: reading, comparing and verifying them."""
