"""The order in which blocks take tiles, for the cache that they share, and what all of them take."""
