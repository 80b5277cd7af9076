"""What RESULTS.md and the papers' pages say of results, written from the values that travel with
the code.
"""
