"""The artefacts of the PFedDST paper."""
