"""Text in and out: parser, syntax errors, formatter."""
