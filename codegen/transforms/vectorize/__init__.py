"""Vectorization: accesses become vector accesses where that is provably right. `vectorizer` starts here."""
