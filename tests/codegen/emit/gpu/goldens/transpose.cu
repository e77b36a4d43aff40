// transpose: a kernel for sm_80, made by Andiron.
// Build: nvcc -std=c++17 -fmad=false -arch=DEVICE -shared -Xcompiler -fPIC
//
// schedule tiled for transpose on sm_80:
//     tile i: 32, j: 32 -> block
//     move X -> shared pad 1:
//         fuse i, j as ij
//         tile ij: 1 -> thread
//         compute
//     tile j: 1, i: 1 -> thread
//     compute

#if defined(__CUDACC_RTC__)  // NVRTC has no headers
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
#define INT64_C(x) x##LL
#define INT32_MIN (-2147483647 - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define INT64_MIN (-INT64_MAX - 1)
#else
#include <stdint.h>
#endif

#define m_inline static __device__ __forceinline__
#define m_both static __host__ __device__ __forceinline__ __attribute__((unused))

// transpose_Y
//   shared: x_shared 4224 bytes
constexpr int andiron_transpose__transpose_Y__THREADS = 1024;  // of a block: 32 warps x 32 threads

extern "C" __global__ void __launch_bounds__(andiron_transpose__transpose_Y__THREADS, 1)
andiron_transpose__transpose_Y(const float* __restrict__ X, float* __restrict__ Y, int64_t M, int64_t N) {
    extern __shared__ __attribute__((aligned(16))) unsigned char m_shared[];
    const int block = blockIdx.x;
    float* x_shared = (float*)m_shared;
    const int warp = threadIdx.x / 32;
    const int thread = threadIdx.x % 32;
    float* x_shared2 = x_shared + thread + 33 * warp;
    float* x_shared3 = x_shared + 33 * thread + warp;
    const int N_tiles = (N + 31) / 32;
    const int i1 = block / N_tiles;
    const float* X3 = X + thread + N * warp + 32 * N * i1;
    const int j1 = block % N_tiles;
    float* Y4 = Y + thread + M * warp + 32 * (int64_t)i1 + 32 * M * j1;
    x_shared2[0] = (32 * (int64_t)i1 + warp < M && 32 * (int64_t)j1 + thread < N) ? X3[32 * (int64_t)j1] : 0.0f;
    __syncthreads();  // x_shared is written before, read after
    if (32 * (int64_t)j1 + warp < N && 32 * (int64_t)i1 + thread < M) Y4[0] = x_shared3[0];
}

#if !defined(ANDIRON_DEVICE_ONLY)
constexpr int andiron_transpose__transpose_Y__SHARED = 4224;  // bytes of shared memory

// How many bytes of memory of the device a call needs besides its arguments.
extern "C" int64_t andiron_transpose__workspace(const int64_t* dims) {
    (void)dims;
    return 0;
}

// Begins a launch. Returns 0; 2 when there are too many blocks; 1000 + the error of the launch.
template <typename... Parameters, typename... Arguments>
static int m_launch(void (*kernel)(Parameters...), int64_t blocks, int threads, int shared, void* stream, Arguments... arguments) {
    if (blocks > 2147483647) return 2;
    if (blocks <= 0) return 0;
    if (shared > 49152) cudaFuncSetAttribute((const void*)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    kernel<<<(unsigned)blocks, threads, shared, (cudaStream_t)stream>>>(arguments...);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? 0 : 1000 + (int)error;
}

// args: X, Y (memory of the device). dims: M, N.
// Returns 0; 100 + i when condition i does not hold; 2 when there are too many blocks; 1000 + the error of a launch.
extern "C" int andiron_transpose(void* const* args, const int64_t* dims, void* stream) {
    (void)args;
    (void)dims;
    const float* X = (const float*)args[0];
    float* Y = (float*)args[1];
    const int64_t M = dims[0];
    const int64_t N = dims[1];
    int error = 0;
    if (error == 0) error = m_launch(
        andiron_transpose__transpose_Y, (M + 31) / 32 * ((N + 31) / 32), andiron_transpose__transpose_Y__THREADS, andiron_transpose__transpose_Y__SHARED, stream, X, Y, M, N);
    return error;
}
#endif
