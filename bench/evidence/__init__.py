"""From stored and published results to a paper's tables and figures.

What is known goes through these hands: a stored record (`store`), or a published line
(`committed`), of which `library.CellEvidence` takes the record if there is one, else the best
line; beside what the grid plans they are the `Evidence` of one artefact at one scale
(`planned_evidence`), from which the paper's own code makes a table or a figure (`artefacts`); where
several scales have been run, these become one (`across_scales`).

The other way: `collect` publishes records as lines, `committed.verify` asks whether both are sound.
"""
