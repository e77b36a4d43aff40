"""Files: the cache, kernels saved ahead of time, and whether others could have written them."""
