"""Files: the cache, saved kernels, and the question whether others could have written them."""
