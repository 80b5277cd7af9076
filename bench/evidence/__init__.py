"""From stored and committed runs to a paper's tables and figures.

`cell_evidence` returns the stored record of a cell (`store`) or else its best committed run
(`committed`). With the cells that the grid plans, this is the `Evidence` of one artefact at one
scale (`artefact_evidence`), from which the paper's own code makes a table or figure (`artefacts`).
The results of several scales are merged (`merge_scales`).

`collect` commits records as lines, and `committed.verify` checks both.
"""
