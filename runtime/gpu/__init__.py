"""GPUs: compilers of CUDA and HIP text, their figures, loading and launching.

Nothing here needs a GPU, a driver or a toolkit to be imported.
"""
