"""`andiron view`: one page about a kernel, which needs no network."""
