"""What all papers share: published numbers, verdicts, tables, figures and the statistics behind
them.
"""
