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
    uint16_t* b_shared3 = b_shared + 4 * (thread / 16) + 36 * (thread % 16);
    uint16_t* a_shared3 = a_shared + 4 * (thread / 16) + 36 * (thread % 16);
    const int N_tiles = (N + 31) / 32;
    const int m1 = block / N_tiles;
    const uint16_t* A2 = A + 32 * (int64_t)K * m1;
    const int n1 = block % N_tiles;
    const uint16_t* B2 = B + 32 * (int64_t)K * n1;
    const float* b5 = b + thread % 16 + 32 * n1;
    uint16_t* C4 = C + thread % 16 + 4 * (int64_t)N * (thread / 16) + 32 * (int64_t)N * m1 + 32 * n1;
    float h[4] = {};
    uint32_t a2[2] = {};
    uint32_t b3[2] = {};
    if (K > 0) {
        const int m8 = 8 * wave + thread / 8;
        const uint16_t* A3 = A2 + (int64_t)K * m8;
        uint16_t* a_shared2 = a_shared + 36 * m8;
        const int k13 = thread % 8;
        uint32_t a[2] = {};
        if (32 * m1 + m8 < M && 4 * k13 < K) {
            i__load_global_f16x4(A3 + 4 * k13, a);
        } else {
            #pragma unroll
            for (int k32_word = 0; k32_word < 2; k32_word++) a[k32_word] = 0;
        }
        i__store_shared_f16x4(a, a_shared2 + 4 * k13);
        const int n8 = 8 * wave + thread / 8;
        const uint16_t* B3 = B2 + (int64_t)K * n8;
        uint16_t* b_shared2 = b_shared + 36 * n8;
        uint32_t b1[2] = {};
        if (32 * n1 + n8 < N && 4 * k13 < K) {
            i__load_global_f16x4(B3 + 4 * k13, b1);
        } else {
            #pragma unroll
            for (int k62_word = 0; k62_word < 2; k62_word++) b1[k62_word] = 0;
        }
        i__store_shared_f16x4(b1, b_shared2 + 4 * k13);
    }
    // tile k: 32 pipeline 2
    for (int k1 = 0; k1 < (K + 31) / 32; k1++) {
        const uint16_t* A_k1 = A2 + 32 * k1;
        const uint16_t* B_k1 = B2 + 32 * k1;
        const int slot = k1 % 2;
        uint16_t* b_shared_k1 = b_shared3 + 1152 * slot;
        uint16_t* a_shared_k1 = a_shared3 + 1152 * slot;
        if (32 * k1 + 32 < K) {
            const int m6 = 8 * wave + thread / 8;
            const uint16_t* A3 = A_k1 + (int64_t)K * m6;
            const int k9 = thread % 8;
            if (32 * m1 + m6 < M && 32 * k1 + 4 * k9 + 32 < K) {
                i__load_global_f16x4(A3 + 4 * k9 + 32, a2);
            } else {
                #pragma unroll
                for (int k34_word = 0; k34_word < 2; k34_word++) a2[k34_word] = 0;
            }
            const int n6 = 8 * wave + thread / 8;
            const uint16_t* B3 = B_k1 + (int64_t)K * n6;
            if (32 * n1 + n6 < N && 32 * k1 + 4 * k9 + 32 < K) {
                i__load_global_f16x4(B3 + 4 * k9 + 32, b3);
            } else {
                #pragma unroll
                for (int k64_word = 0; k64_word < 2; k64_word++) b3[k64_word] = 0;
            }
        }
        const int m3 = wave / 2;
        uint16_t* a_shared_k1_2 = a_shared_k1 + 576 * m3;
        const int n3 = wave % 2;
        uint16_t* b_shared_k1_2 = b_shared_k1 + 576 * n3;
        m_barrier();  // b_shared is written before, read after
        // tile k: 16 unroll
        #pragma unroll 2
        for (int k8 = 0; k8 < 2; k8++) {
            uint32_t b2[2];
            i__load_shared_f16x4(b_shared_k1_2 + 16 * k8, b2);
            uint32_t a1[2];
            i__load_shared_f16x4(a_shared_k1_2 + 16 * k8, a1);
            i__mfma_16x16x16_f16(a1, b2, h);
        }
        if (32 * k1 + 32 < K) {
            const int slot1 = (k1 + 1) % 2;
            const int m7 = 8 * wave + thread / 8;
            uint16_t* a_shared4 = a_shared + 1152 * slot1 + 36 * m7;
            const int k11 = thread % 8;
            i__store_shared_f16x4(a2, a_shared4 + 4 * k11);
            const int n7 = 8 * wave + thread / 8;
            i__store_shared_f16x4(b3, b_shared + 1152 * slot1 + 36 * n7 + 4 * k11);
        }
    }
    const int m5 = wave / 2;
    const int n5 = wave % 2;
    uint16_t* C6 = C4 + 16 * (int64_t)(N * m5) + 16 * n5;
    #pragma unroll
    for (int r3 = 0; r3 < 4; r3++) {
        uint16_t* C_r3 = C6 + (int64_t)N * r3;
        if (32 * m1 + 16 * m5 + r3 + 4 * (thread / 16) < M && 32 * n1 + 16 * n5 + thread % 16 < N) {
            C_r3[0] = f16_from_f32(m_relu(h[r3] + b5[16 * n5]));
        }
    }
}
