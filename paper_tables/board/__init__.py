"""The board: all methods, equally tuned, what they cost and whom they harm."""
