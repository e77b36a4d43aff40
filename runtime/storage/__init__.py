"""Files: the cache, saved kernels, and the question of who could have written them."""
