"""The error that descriptions of tables and figures raise."""


class PaperError(ValueError):
    """A table or figure is described wrongly; the message says what and what is valid."""
