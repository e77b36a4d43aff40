"""Emission for GPUs: kernels in CUDA and HIP."""
