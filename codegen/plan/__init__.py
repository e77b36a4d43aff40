"""From an op's statements to launches: what is inlined, what shares a launch, what has a name of its own."""
