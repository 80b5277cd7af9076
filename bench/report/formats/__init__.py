"""The forms of tables and figures: Markdown, LaTeX, terminal, files."""
