"""Vectorization: accesses become vector accesses where that is proven to be right. `vectorizer` starts here."""
