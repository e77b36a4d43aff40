"""GPUs: compilers of CUDA and HIP source code, resource figures, loading and launching.

Nothing here needs a GPU, a driver or a toolkit to be imported.
"""
