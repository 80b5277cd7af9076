"""Figures: their common style, the plots, and captions."""
