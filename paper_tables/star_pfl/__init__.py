"""The artefacts of the Star-PFL paper."""
