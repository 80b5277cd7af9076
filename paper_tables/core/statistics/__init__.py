"""The statistics behind verdicts: noise of runs, intervals, comparisons."""
