"""What the README and the papers' pages say of results, written from the values that travel with
the code.
"""
