"""The regression gate: its cells, what the reference keeps of them, and the comparison."""
