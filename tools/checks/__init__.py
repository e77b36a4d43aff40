"""What `andiron check` finds, and editors show: mistakes, warnings, spills, and what the exactly-once checker says."""
