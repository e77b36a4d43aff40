"""Machine code of GPUs: main loops, counts of their instructions, and a cycle model of one SM of NVIDIA's."""
