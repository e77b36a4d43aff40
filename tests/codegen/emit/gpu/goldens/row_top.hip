// row_top: a kernel for sm_80, made by Andiron.
// Build: hipcc -std=c++17 -ffp-contract=off --offload-arch=DEVICE -shared -fPIC
//
// schedule top for row_top on sm_80:
//     tile i: 2 -> block
//     tile i: 1 -> warp
//     tile j: 32
//     tile j: 1 -> thread
//     compute

#if defined(ANDIRON_DEVICE_ONLY)  // no headers are needed
typedef __INT8_TYPE__ int8_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __INT16_TYPE__ int16_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
#ifndef INT64_C
#define INT64_C(x) ((int64_t)x##LL)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define INT64_MIN (-INT64_MAX - 1)
#endif
#ifndef __device__
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#endif
#define memcpy __builtin_memcpy
#else
#include <hip/hip_runtime.h>
#include <stdint.h>
#endif

#pragma clang fp contract(off)
#define m_inline static inline __device__ __attribute__((always_inline))
#define m_both static inline __host__ __device__ __attribute__((always_inline, unused))

m_inline float flt(int32_t x) { return __builtin_bit_cast(float, x); }

m_inline float f32_from_f16(uint16_t h) { return (float)__builtin_bit_cast(_Float16, h); }

m_inline float m_max(float a, float b) { return ((a > b) | (a != a)) ? a : b; }

m_inline float m_shuffle_xor(float x, int distance) {
    const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((lane ^ distance) << 2, __builtin_bit_cast(int, x)));
}

m_inline uint16_t f16_from_f32(float x) { return __builtin_bit_cast(uint16_t, (_Float16)x); }

// row_top_top
//   registers: top1 1 x f32
constexpr int andiron_row_top__row_top_top__THREADS = 64;  // of a block: 2 warps x 32 threads

extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(1, andiron_row_top__row_top_top__THREADS)))
andiron_row_top__row_top_top(const uint16_t* __restrict__ X, uint16_t* __restrict__ top, int64_t M, int64_t N) {
    const int block = __builtin_amdgcn_workgroup_id_x();
    const int warp = __builtin_amdgcn_workitem_id_x() / 32;
    const int thread = __builtin_amdgcn_workitem_id_x() % 32;
    const uint16_t* X2 = X + thread + 2 * N * block + N * warp;
    uint16_t* top2 = top + 2 * (int64_t)block + warp;
    float top1 = -flt(0x7f800000);
    // tile j: 32
    for (int64_t j1 = 0; j1 < N / 32; j1++) {
        top1 = m_max(top1, (2 * (int64_t)block + warp < M) ? f32_from_f16(X2[32 * j1]) : 0.0f);
    }
    for (int64_t j1 = N / 32; j1 < (N + 31) / 32; j1++) {
        top1 = m_max(top1, (32 * j1 + thread < N) ? ((2 * (int64_t)block + warp < M) ? f32_from_f16(X2[32 * j1]) : 0.0f) : -flt(0x7f800000));
    }
    top1 = m_max(top1, m_shuffle_xor(top1, 1));
    top1 = m_max(top1, m_shuffle_xor(top1, 2));
    top1 = m_max(top1, m_shuffle_xor(top1, 4));
    top1 = m_max(top1, m_shuffle_xor(top1, 8));
    top1 = m_max(top1, m_shuffle_xor(top1, 16));
    if (2 * (int64_t)block + warp < M && thread == 0) top2[0] = f16_from_f32(top1);
}

#if !defined(ANDIRON_DEVICE_ONLY)

// How many bytes of memory of the device a call needs besides its arguments.
extern "C" int64_t andiron_row_top__workspace(const int64_t* dims) {
    (void)dims;
    return 0;
}

// Begins a launch. Returns 0; 2 when there are too many blocks; 1000 + the error of the launch.
template <typename... Parameters, typename... Arguments>
static int m_launch(void (*kernel)(Parameters...), int64_t blocks, int threads, int shared, void* stream, Arguments... arguments) {
    if (blocks > 2147483647) return 2;
    if (blocks <= 0) return 0;
    if (shared > 65536) hipFuncSetAttribute((const void*)kernel, hipFuncAttributeMaxDynamicSharedMemorySize, shared);
    kernel<<<(unsigned)blocks, threads, shared, (hipStream_t)stream>>>(arguments...);
    const hipError_t error = hipGetLastError();
    return error == hipSuccess ? 0 : 1000 + (int)error;
}

// args: X, top (memory of the device). dims: M, N.
// Returns 0; 100 + i when condition i does not hold; 2 when there are too many blocks; 1000 + the error of a launch.
extern "C" int andiron_row_top(void* const* args, const int64_t* dims, void* stream) {
    (void)args;
    (void)dims;
    const uint16_t* X = (const uint16_t*)args[0];
    uint16_t* top = (uint16_t*)args[1];
    const int64_t M = dims[0];
    const int64_t N = dims[1];
    int error = 0;
    if (error == 0) error = m_launch(
        andiron_row_top__row_top_top, (M + 1) / 2, andiron_row_top__row_top_top__THREADS, 0, stream, X, top, M, N);
    return error;
}
#endif
