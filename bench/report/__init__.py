"""The report: every artefact as csv, md, tex, png and pdf, and pages that show all of them."""
