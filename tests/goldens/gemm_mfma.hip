// gemm_C
//   shared: a_shared 4608 bytes, b_shared 4608 bytes
//   registers: h 4 x f32, a2 4 x f16, b11 4 x f16, a 4 x f16, b1 4 x f16, b2 4 x f16, a1 4 x f16
constexpr int andiron_gemm__gemm_C__THREADS = 256;  // of a block: 4 waves x 64 threads

extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(1, andiron_gemm__gemm_C__THREADS)))
andiron_gemm__gemm_C(const uint16_t* __restrict__ A, const uint16_t* __restrict__ B, const float* __restrict__ b, uint16_t* __restrict__ C, int M, int N, int K) {
    extern __shared__ __attribute__((aligned(16))) unsigned char m_shared[];
    const int block = __builtin_amdgcn_workgroup_id_x();
    const int wave = __builtin_amdgcn_workitem_id_x() / 64;
    uint16_t* a_shared = (uint16_t*)m_shared;
    uint16_t* b_shared = (uint16_t*)(m_shared + 4608);
    const int thread = __builtin_amdgcn_workitem_id_x() % 64;
    uint16_t* b_shared2 = b_shared + 4 * (thread / 16) + 36 * (thread % 16);
    uint16_t* a_shared2 = a_shared + 4 * (thread / 16) + 36 * (thread % 16);
    const float* b2 = b + thread % 16;
    uint16_t* C2 = C + thread % 16 + 4 * (int64_t)N * (thread / 16);
    const int rest = block / ((N + 31) / 32);
    const uint16_t* A2 = A + 32 * (int64_t)K * rest;
    uint16_t* C3 = C2 + 32 * (int64_t)N * rest;
    const int n1 = block % ((N + 31) / 32);
    const uint16_t* B2 = B + 32 * (int64_t)K * n1;
    const float* b3 = b2 + 32 * n1;
    uint16_t* C4 = C3 + 32 * n1;
    float h_0, h_1, h_2, h_3;
    h_0 = 0.0f;
    h_1 = 0.0f;
    h_2 = 0.0f;
    h_3 = 0.0f;
    uint32_t a2_0 = 0, a2_1 = 0;
    uint32_t b11__0 = 0, b11__1 = 0;
    if ((K + 31) / 32 > 0) {
        const int rest13 = 8 * wave + thread / 8;
        const uint16_t* A3 = A2 + (int64_t)K * rest13;
        uint16_t* a_shared2 = a_shared + 36 * rest13;
        const int k23 = thread % 8;
        uint32_t a_0 = 0, a_1 = 0;
        if (32 * rest + rest13 < M && 4 * k23 < K) {
            i__load_global_f16x4(A3 + 4 * k23, a_0, a_1);
        } else {
            a_0 = 0;
            a_1 = 0;
        }
        i__store_shared_f16x4(a_0, a_1, a_shared2 + 4 * k23);
        const int rest23 = 8 * wave + thread / 8;
        const uint16_t* B3 = B2 + (int64_t)K * rest23;
        uint16_t* b_shared2 = b_shared + 36 * rest23;
        const int k53 = thread % 8;
        uint32_t b1__0 = 0, b1__1 = 0;
        if (32 * n1 + rest23 < N && 4 * k53 < K) {
            i__load_global_f16x4(B3 + 4 * k53, b1__0, b1__1);
        } else {
            b1__0 = 0;
            b1__1 = 0;
        }
        i__store_shared_f16x4(b1__0, b1__1, b_shared2 + 4 * k53);
    }
    // tile k: 32 pipeline 2
    for (int k1 = 0; k1 < (K + 31) / 32; k1++) {
        const uint16_t* A_k1 = A2 + 32 * k1;
        const uint16_t* B_k1 = B2 + 32 * k1;
        const int slot = k1 % 2;
        uint16_t* b_shared_k1 = b_shared2 + 1152 * slot;
        uint16_t* a_shared_k1 = a_shared2 + 1152 * slot;
        if (k1 + 2 <= (K + 31) / 32) {
            const int rest11 = 8 * wave + thread / 8;
            const uint16_t* A3 = A_k1 + (int64_t)K * rest11;
            const int k21 = thread % 8;
            if (32 * rest + rest11 < M && 32 * k1 + 4 * k21 + 33 <= K) {
                i__load_global_f16x4(A3 + 4 * k21 + 32, a2_0, a2_1);
            } else {
                a2_0 = 0;
                a2_1 = 0;
            }
            const int rest21 = 8 * wave + thread / 8;
            const uint16_t* B3 = B_k1 + (int64_t)K * rest21;
            const int k51 = thread % 8;
            if (32 * n1 + rest21 < N && 32 * k1 + 4 * k51 + 33 <= K) {
                i__load_global_f16x4(B3 + 4 * k51 + 32, b11__0, b11__1);
            } else {
                b11__0 = 0;
                b11__1 = 0;
            }
        }
        const int rest3 = wave / 2;
        uint16_t* a_shared_k1_2 = a_shared_k1 + 576 * rest3;
        const int n2 = wave % 2;
        uint16_t* b_shared_k1_2 = b_shared_k1 + 576 * n2;
        m_barrier();  // b_shared is written before, read after
        // tile k: 16 unroll
        #pragma unroll 2
        for (int k8 = 0; k8 < 2; k8++) {
            uint32_t b2__0, b2__1;
            i__load_shared_f16x4(b_shared_k1_2 + 16 * k8, b2__0, b2__1);
            uint32_t a1_0, a1_1;
            i__load_shared_f16x4(a_shared_k1_2 + 16 * k8, a1_0, a1_1);
            i__mfma_16x16x16_f16(a1_0, a1_1, b2__0, b2__1, h_0, h_1, h_2, h_3);
        }
        if (k1 + 2 <= (K + 31) / 32) {
            const int slot1 = (k1 + 1) % 2;
            uint16_t* a_shared3 = a_shared + 1152 * slot1;
            uint16_t* b_shared3 = b_shared + 1152 * slot1;
            const int rest12 = 8 * wave + thread / 8;
            uint16_t* a_shared4 = a_shared3 + 36 * rest12;
            const int k22 = thread % 8;
            i__store_shared_f16x4(a2_0, a2_1, a_shared4 + 4 * k22);
            const int rest22 = 8 * wave + thread / 8;
            uint16_t* b_shared4 = b_shared3 + 36 * rest22;
            const int k52 = thread % 8;
            i__store_shared_f16x4(b11__0, b11__1, b_shared4 + 4 * k52);
        }
    }
    const int rest5 = wave / 2;
    uint16_t* C5 = C4 + 16 * (int64_t)(N * rest5);
    const int n4 = wave % 2;
    if (32 * rest + 16 * rest5 + 4 * (thread / 16) < M && 32 * n1 + 16 * n4 + thread % 16 < N) {
        C5[16 * n4] = f16_from_f32(m_relu(h_0 + b3[16 * n4]));
    }
    if (32 * rest + 16 * rest5 + 4 * (thread / 16) + 2 <= M && 32 * n1 + 16 * n4 + thread % 16 < N) {
        C5[16 * n4 + N] = f16_from_f32(m_relu(h_1 + b3[16 * n4]));
    }
    if (32 * rest + 16 * rest5 + 4 * (thread / 16) + 3 <= M && 32 * n1 + 16 * n4 + thread % 16 < N) {
        C5[16 * n4 + 2 * (int64_t)N] = f16_from_f32(m_relu(h_2 + b3[16 * n4]));
    }
    if (32 * rest + 16 * rest5 + 4 * (thread / 16) + 4 <= M && 32 * n1 + 16 * n4 + thread % 16 < N) {
        C5[16 * n4 + 3 * (int64_t)N] = f16_from_f32(m_relu(h_3 + b3[16 * n4]));
    }
}
