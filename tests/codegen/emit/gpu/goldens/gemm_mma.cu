// gemm_C
//   shared: a_shared 4096 bytes, b_shared 2048 bytes, c_shared 1536 bytes
//   registers: h 4 x f32, a 8 x f16, b1 4 x f16
constexpr int andiron_gemm__gemm_C__THREADS = 128;  // of a block: 4 warps x 32 threads

extern "C" __global__ void __launch_bounds__(andiron_gemm__gemm_C__THREADS, 1)
andiron_gemm__gemm_C(const uint16_t* __restrict__ A, const uint16_t* __restrict__ B, const float* __restrict__ b, uint16_t* __restrict__ C, int M, int N, int K) {
    extern __shared__ __attribute__((aligned(16))) unsigned char m_shared[];
    const int block = blockIdx.x;
    const int warp = threadIdx.x / 32;
    uint16_t* a_shared = (uint16_t*)m_shared;
    uint16_t* b_shared = (uint16_t*)(m_shared + 4096);
    const int thread = threadIdx.x % 32;
    const uint16_t* A2 = A + 8 * (thread % 4) + 8 * (int64_t)K * warp + (int64_t)K * (thread / 4);
    uint16_t* a_shared2 = a_shared + 256 * warp + 32 * (thread / 4) + 8 * ((thread / 8) ^ (thread % 4));
    const uint16_t* B2 = B + 8 * (thread % 4) + 8 * (int64_t)K * warp + (int64_t)K * (thread / 4);
    uint16_t* b_shared2 = b_shared + 256 * warp + 32 * (thread / 4) + 8 * ((thread / 8) ^ (thread % 4));
    uint16_t* c_shared = (uint16_t*)m_shared;
    uint16_t* c_shared5 = c_shared + 384 * warp;
    const int N_tiles = (N + 15) / 16;
    const int m1 = block / N_tiles;
    const uint16_t* A3 = A2 + 32 * (int64_t)K * m1;
    const int n1 = block % N_tiles;
    const uint16_t* B3 = B2 + 16 * (int64_t)K * n1;
    const float* b3 = b + 2 * (thread % 4) + 16 * n1;
    uint16_t* C4 = C + 16 * (int64_t)N * warp + 32 * (int64_t)N * m1 + 16 * n1;
    float h[4] = {};
    const int m3 = warp / 2;
    uint16_t* a_shared4 = a_shared + 32 * (thread % 16) + 512 * m3;
    const int n3 = warp % 2;
    uint16_t* b_shared4 = b_shared + 32 * (thread % 8) + 256 * n3;
    uint16_t* c_shared4 = c_shared + 24 * (thread / 4) + 2 * (thread % 4) + 384 * m3 + 8 * n3;
    if (K > 0) {
        int32_t live[1] = {(32 * m1 + 8 * warp + thread / 4 < M && 8 * (thread % 4) < K) ? 8 : 0};
        i__cp_async_zero_f16x8(A3, live, a_shared2);
        if (warp < 2) {
            int32_t live1[1] = {(16 * n1 + 8 * warp + thread / 4 < N && 8 * (thread % 4) < K) ? 8 : 0};
            i__cp_async_zero_f16x8(B3, live1, b_shared2);
        }
    }
    m_commit_group();
    // tile k: 32 pipeline 2
    for (int k1 = 0; k1 < (K + 31) / 32; k1++) {
        const int slot = k1 % 2;
        uint16_t* a_shared_k1 = a_shared4 + 1024 * slot;
        uint16_t* b_shared_k1 = b_shared4 + 512 * slot;
        m_wait_group<0>();
        __syncthreads();  // a_shared is read before, written after
        if (32 * k1 + 32 < K) {
            const int slot1 = (k1 + 1) % 2;
            int32_t live2[1] = {(32 * m1 + 8 * warp + thread / 4 < M && 32 * k1 + 8 * (thread % 4) + 32 < K) ? 8 : 0};
            i__cp_async_zero_f16x8(A3 + 32 * k1 + 32, live2, a_shared2 + 1024 * slot1);
            if (warp < 2) {
                int32_t live3[1] = {(16 * n1 + 8 * warp + thread / 4 < N && 32 * k1 + 8 * (thread % 4) + 32 < K) ? 8 : 0};
                i__cp_async_zero_f16x8(B3 + 32 * k1 + 32, live3, b_shared2 + 512 * slot1);
            }
        }
        m_commit_group();
        // tile k: 16 unroll
        #pragma unroll 2
        for (int k2 = 0; k2 < 2; k2++) {
            uint16_t* a_shared_k2 = a_shared_k1 + 8 * ((2 * k2 + thread / 16) ^ (thread / 2 % 4));
            uint16_t* b_shared_k2 = b_shared_k1 + 8 * ((2 * k2 + thread / 8 % 2) ^ (thread / 2 % 4));
            uint32_t a[4];
            i__ldmatrix_x4_a_f16x2(a_shared_k2, a);
            uint32_t b1[2];
            i__ldmatrix_x2_b_f16x2(b_shared_k2, b1);
            i__mma_m16n8k16_f16(a, b1, h);
        }
    }
    __syncthreads();  // c_shared lies where others were
    #pragma unroll
    for (int r31 = 0; r31 < 2; r31++) {
        if (32 * m1 + 16 * m3 + 8 * r31 + thread / 4 < M && 16 * n1 + 8 * n3 + 2 * (thread % 4) < N) {
            float b_v[2];
            uint32_t c_shared_v[1] = {};
            i__load_global_f32x2(b3 + 8 * n3, b_v);
            c_shared_v[0] = m_pack_u16(f16_from_f32(m_relu(h[2 * r31] + b_v[0])), f16_from_f32(m_relu(h[2 * r31 + 1] + b_v[1])));
            i__store_shared_f16x2(c_shared_v, c_shared4 + 192 * r31);
        }
    }
    __syncthreads();  // c_shared is written before, read after
    if (warp < 2) {
        const int m5 = thread / 2;
        uint16_t* c_shared6 = c_shared5 + 24 * m5;
        uint16_t* C5 = C4 + (int64_t)N * m5;
        const int n5 = thread % 2;
        if (32 * m1 + m5 + 16 * warp < M && 16 * n1 + 8 * n5 < N) {
            uint32_t c_shared_v1[4];
            i__load_shared_f16x8(c_shared6 + 8 * n5, c_shared_v1);
            i__store_global_f16x8(c_shared_v1, C5 + 8 * n5);
        }
    }
}
