"""Vector accesses, by proof. `vectorizer` starts here."""
