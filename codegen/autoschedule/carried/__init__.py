"""Prefix reductions on devices of blocks: loops over tiles of rows that go on from tile to tile."""
