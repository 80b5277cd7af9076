PATIENCE = 900
"""Seconds until a process that does not answer has failed: more than any busy machine needs."""
