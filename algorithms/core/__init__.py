"""What methods are written with."""

ENGINE = 1
"""Version of what every cell runs through: training, scoring, models, data handling, draws. Raise
it whenever a change moves the numbers of more than one method, data set or partition rule; results
of another engine are stale.
"""
