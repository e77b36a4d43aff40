"""Performance lint: warnings about programs that are right and slow, found without running them."""
