"""Few long rows: units have parts of a row, and a launch that follows combines what they found."""
