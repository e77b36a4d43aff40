"""Integer index expressions: canonical form, substitution, intervals, proofs and counterexamples."""
