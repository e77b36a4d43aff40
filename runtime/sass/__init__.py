"""Machine code of NVIDIA GPUs (SASS): its main loops, counts of their instructions, and a cycle model of one SM."""
