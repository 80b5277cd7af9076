"""Partitioners: every module registers one family."""
