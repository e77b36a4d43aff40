"""A search outwards from candidates that were measured: mutations, generations, batches."""
