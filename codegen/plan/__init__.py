"""From the statements of an op to launches: inlined intermediates, computations that share a launch, named factors."""
