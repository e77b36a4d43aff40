// gemm_C
//   shared: a_shared 4608 bytes, b_shared 4608 bytes
//   registers: h 4 x f32, a2 4 x f16, b3 4 x f16, a 4 x f16, b1 4 x f16, b2 4 x f16, a1 4 x f16
constexpr int andiron_gemm__gemm_C__THREADS = 256;  // of a block: 4 waves x 64 threads

extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(1, andiron_gemm__gemm_C__THREADS)))
andiron_gemm__gemm_C(const uint16_t* __restrict__ A, const uint16_t* __restrict__ B, const float* __restrict__ b, uint16_t* __restrict__ C, int M, int N, int K) {
    extern __shared__ __attribute__((aligned(16))) unsigned char m_shared[];
    const int block = __builtin_amdgcn_workgroup_id_x();
    const int wave = __builtin_amdgcn_workitem_id_x() / 64;
    uint16_t* a_shared = (uint16_t*)m_shared;
    uint16_t* b_shared = (uint16_t*)(m_shared + 4608);
    const int thread = __builtin_amdgcn_workitem_id_x() % 64;
    uint16_t* C2 = C + thread % 16 + 4 * (int64_t)N * (thread / 16);
    const int N_tiles = (N + 31) / 32;
    const int m1 = block / N_tiles;
    const uint16_t* A2 = A + 32 * (int64_t)K * m1;
    const int n1 = block % N_tiles;
    const uint16_t* B2 = B + 32 * (int64_t)K * n1;
    const float* b5 = b + thread % 16 + 32 * n1;
    float h[4] = {};
    const int m4 = wave / 2;
    uint16_t* a_shared4 = a_shared + 4 * (thread / 16) + 36 * (thread % 16) + 576 * m4;
    const int n4 = wave % 2;
    uint16_t* b_shared4 = b_shared + 4 * (thread / 16) + 36 * (thread % 16) + 576 * n4;
    uint16_t* C6 = C2 + 32 * (int64_t)N * m1 + 32 * n1 + 16 * (int64_t)(N * m4) + 16 * n4;
    uint32_t a2[2] = {};
    uint32_t b3[2] = {};
    const int m6 = 8 * wave + thread / 8;
    const int k9 = thread % 8;
    const uint16_t* A4 = A2 + 4 * k9 + (int64_t)K * m6;
    const int n6 = 8 * wave + thread / 8;
    const uint16_t* B5 = B2 + 4 * k9 + (int64_t)K * n6;
    uint16_t* a_shared5 = a_shared + 4 * k9 + 36 * m6;
    uint16_t* b_shared5 = b_shared + 4 * k9 + 36 * n6;
    if (K > 0) {
        const uint16_t* A3 = A2 + (int64_t)K * m6;
        uint16_t* a_shared2 = a_shared + 36 * m6;
        const uint16_t* B3 = B2 + 4 * k9;
        uint16_t* b_shared2 = b_shared + 4 * k9;
        uint32_t a[2] = {};
        if (32 * m1 + m6 < M && 4 * k9 < K) {
            i__load_global_f16x4(A3 + 4 * k9, a);
        } else {
            #pragma unroll
            for (int k32_word = 0; k32_word < 2; k32_word++) a[k32_word] = 0;
        }
        i__store_shared_f16x4(a, a_shared2 + 4 * k9);
        const uint16_t* B4 = B3 + (int64_t)K * n6;
        uint32_t b1[2] = {};
        if (32 * n1 + n6 < N && 4 * k9 < K) {
            i__load_global_f16x4(B4, b1);
        } else {
            #pragma unroll
            for (int k62_word = 0; k62_word < 2; k62_word++) b1[k62_word] = 0;
        }
        i__store_shared_f16x4(b1, b_shared2 + 36 * n6);
    }
    // tile k: 32 pipeline 2
    for (int k1 = 0; k1 < (K + 31) / 32; k1++) {
        const int slot = k1 % 2;
        uint16_t* b_shared_k1 = b_shared4 + 1152 * slot;
        uint16_t* a_shared_k1 = a_shared4 + 1152 * slot;
        if (32 * k1 + 32 < K) {
            if (32 * m1 + m6 < M && 32 * k1 + 4 * k9 + 32 < K) {
                i__load_global_f16x4(A4 + 32 * k1 + 32, a2);
            } else {
                #pragma unroll
                for (int k34_word = 0; k34_word < 2; k34_word++) a2[k34_word] = 0;
            }
            if (32 * n1 + n6 < N && 32 * k1 + 4 * k9 + 32 < K) {
                i__load_global_f16x4(B5 + 32 * k1 + 32, b3);
            } else {
                #pragma unroll
                for (int k64_word = 0; k64_word < 2; k64_word++) b3[k64_word] = 0;
            }
        }
        m_barrier();  // b_shared is written before, read after
        // tile k: 16 unroll
        #pragma unroll 2
        for (int k8 = 0; k8 < 2; k8++) {
            uint32_t b2[2];
            i__load_shared_f16x4(b_shared_k1 + 16 * k8, b2);
            uint32_t a1[2];
            i__load_shared_f16x4(a_shared_k1 + 16 * k8, a1);
            i__mfma_16x16x16_f16(a1, b2, h);
        }
        if (32 * k1 + 32 < K) {
            const int slot1 = (k1 + 1) % 2;
            i__store_shared_f16x4(a2, a_shared5 + 1152 * slot1);
            i__store_shared_f16x4(b3, b_shared5 + 1152 * slot1);
        }
    }
    #pragma unroll
    for (int r3 = 0; r3 < 4; r3++) {
        uint16_t* C_r3 = C6 + (int64_t)N * r3;
        if (32 * m1 + 16 * m4 + r3 + 4 * (thread / 16) < M && 32 * n1 + 16 * n4 + thread % 16 < N) {
            C_r3[0] = f16_from_f32(m_relu(h[r3] + b5[16 * n4]));
        }
    }
}
