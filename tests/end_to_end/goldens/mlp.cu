// mlp_Y
//   shared: h_sum1 16384 bytes, x_shared 16384 bytes, w1_shared 16384 bytes, y_left 8192 bytes,
//     w2_shared 16384 bytes
//   registers: y 64 x f32, h_sum11 32 x f32, b 32 x f16, a 8 x f16, b1 64 x f16, a1 8 x f16
constexpr int andiron_mlp__mlp_Y__THREADS = 128;  // of a block: 4 warps x 32 threads

extern "C" __global__ void __launch_bounds__(andiron_mlp__mlp_Y__THREADS, 1)
andiron_mlp__mlp_Y(const uint16_t* __restrict__ X, const uint16_t* __restrict__ W1, const uint16_t* __restrict__ W2, float* __restrict__ Y, int M, int K, int F, int N) {
    extern __shared__ __attribute__((aligned(16))) unsigned char m_shared[];
    float* h_sum1 = (float*)m_shared;
    uint16_t* x_shared = (uint16_t*)(m_shared + 16384);
    const int block = blockIdx.x;
    const int warp = threadIdx.x / 32;
    const int thread = threadIdx.x % 32;
    const uint16_t* X2 = X + 8 * (thread % 16) + 64 * (int64_t)(K * block) + 2 * K * warp + K * (thread / 16);
    uint16_t* x_shared2 = x_shared + 256 * warp + 64 * (thread / 8) + 8 * ((2 * warp + thread / 16) ^ (thread % 8));
    uint16_t* w1_shared = (uint16_t*)(m_shared + 32768);
    const uint16_t* W1_2 = W1 + 8 * (thread % 8) + 4 * (int64_t)F * warp + (int64_t)F * (thread / 8);
    uint16_t* w1_shared2 = w1_shared + 256 * warp + 64 * (thread / 8) + 8 * ((thread / 8 + 4 * (warp % 2)) ^ (thread % 8));
    uint16_t* w1_shared3 = w1_shared + thread / 4 + 128 * (thread % 4);
    uint16_t* x_shared3 = x_shared + 2048 * warp + 128 * (thread / 4) + 2 * (thread % 4);
    float* h_sum1_2 = h_sum1 + 1024 * warp + 64 * (thread / 4) + 2 * (thread % 4);
    uint16_t* y_left = (uint16_t*)(m_shared + 49152);
    float* h_sum1_3 = h_sum1 + 4 * thread + 128 * warp;
    uint16_t* y_left2 = y_left + 128 * warp + 64 * (thread / 16) + 4 * (thread % 2) + 8 * ((2 * warp + thread / 16) ^ (thread / 2 % 8));
    uint16_t* w2_shared = (uint16_t*)(m_shared + 57344);
    const uint16_t* W2_2 = W2 + 8 * (thread % 16) + 2 * N * warp + N * (thread / 16);
    uint16_t* w2_shared2 = w2_shared + 256 * warp + 64 * (thread / 8) + 8 * ((2 * warp + thread / 16) ^ (thread % 8));
    uint16_t* w2_shared3 = w2_shared + thread / 4 + 256 * (thread % 4);
    uint16_t* y_left3 = y_left + 1024 * warp + 64 * (thread / 4) + 2 * (thread % 4);
    float* Y2 = Y + 2 * (thread % 4) + 64 * (int64_t)(N * block) + 16 * N * warp + N * (thread / 4);
    float y[16][4] = {};
    // tile f: 64
    for (int f1 = 0; f1 < (F + 63) / 64; f1++) {
        const uint16_t* W1_f1 = W1_2 + 64 * f1;
        const uint16_t* W2_f1 = W2_2 + 64 * (int64_t)(N * f1);
        float h_sum11[8][4] = {};
        // tile mk: 8 -> thread
        #pragma unroll 8
        for (int mk1 = 0; mk1 < 8; mk1++) {
            const uint16_t* X_mk1 = X2 + 8 * K * mk1;
            uint32_t x_v[4] = {};
            if (64 * block + 8 * mk1 + 2 * warp + thread / 16 < M && 8 * (thread % 16) < K) {
                i__load_global_f16x8(X_mk1, x_v);
            } else {
                #pragma unroll
                for (int mk32_word = 0; mk32_word < 4; mk32_word++) x_v[mk32_word] = 0;
            }
            i__store_shared_f16x8(x_v, x_shared2 + 1024 * mk1);
        }
        // tile kf: 8 -> thread
        #pragma unroll 8
        for (int kf1 = 0; kf1 < 8; kf1++) {
            const uint16_t* W1_kf1 = W1_f1 + 16 * (int64_t)F * kf1;
            uint32_t w1_v[4] = {};
            if (16 * kf1 + 4 * warp + thread / 8 < K && 64 * f1 + 8 * (thread % 8) < F) {
                i__load_global_f16x8(W1_kf1, w1_v);
            } else {
                #pragma unroll
                for (int kf32_word = 0; kf32_word < 4; kf32_word++) w1_v[kf32_word] = 0;
            }
            i__store_shared_f16x8(w1_v, w1_shared2 + 1024 * kf1);
        }
        __syncthreads();  // w1_shared is written before, read after
        // tile k: 16
        for (int k1 = 0; k1 < (K + 15) / 16; k1++) {
            uint16_t* w1_shared_k1 = w1_shared3 + 1024 * k1;
            uint16_t* x_shared_k1 = x_shared3 + 64 * (k1 / 4);
            uint32_t b[8][2] = {};
            #pragma unroll
            for (int f2 = 0; f2 < 8; f2++) {
                uint16_t* w1_shared_f2 = w1_shared_k1 + 8 * (f2 ^ (2 * (thread % 4)));
                uint16_t* w1_shared_f2_2 = w1_shared_k1 + 8 * (f2 ^ (2 * (thread % 4) + 1));
                #pragma unroll
                for (int r_word = 0; r_word < 2; r_word++) {
                    b[f2][r_word] = m_pack_u16(w1_shared_f2[512 * r_word], w1_shared_f2_2[512 * r_word + 64]);
                }
            }
            uint32_t a[4];
            #pragma unroll
            for (int r11 = 0; r11 < 4; r11++) {
                uint16_t* x_shared_r11 = x_shared_k1 + 1024 * (r11 % 2) + 8 * ((r11 / 2 + 2 * (k1 % 4)) ^ (thread / 4));
                i__load_shared_f16x2(x_shared_r11, (uint32_t (&)[1])a[r11]);
            }
            #pragma unroll
            for (int f3 = 0; f3 < 8; f3++) i__mma_m16n8k16_f16(a, b[f3], h_sum11[f3]);
        }
        #pragma unroll
        for (int f5 = 0; f5 < 8; f5++) {
            float* h_sum1_f5 = h_sum1_2 + 8 * f5;
            #pragma unroll
            for (int r31 = 0; r31 < 2; r31++) {
                if (64 * block + 8 * r31 + 16 * warp + thread / 4 < M && 64 * f1 + 8 * f5 + 2 * (thread % 4) < F) {
                    i__store_shared_f32x2((float (&)[2])h_sum11[f5][2 * r31], h_sum1_f5 + 512 * r31);
                }
            }
        }
        __syncthreads();  // h_sum1 is written before, read after
        // tile mf: 4 -> thread
        #pragma unroll 8
        for (int mf1 = 0; mf1 < 8; mf1++) {
            float h_sum1_v[4];
            uint32_t y_left_v[2] = {};
            if (64 * block + 8 * mf1 + 2 * warp + thread / 16 < M && 64 * f1 + 4 * (thread % 16) < F) {
                i__load_shared_f32x4(h_sum1_3 + 512 * mf1, h_sum1_v);
            }
            if (64 * block + 8 * mf1 + 2 * warp + thread / 16 < M && 64 * f1 + 4 * (thread % 16) + 3 < F) {
                #pragma unroll
                for (int mf32_word = 0; mf32_word < 2; mf32_word++) {
                    y_left_v[mf32_word] = m_pack_u16(f16_from_f32(m_gelu(h_sum1_v[2 * mf32_word])), f16_from_f32(m_gelu(h_sum1_v[2 * mf32_word + 1])));
                }
            } else {
                #pragma unroll
                for (int mf32_word = 0; mf32_word < 2; mf32_word++) {
                    y_left_v[mf32_word] = m_pack_u16((64 * block + 8 * mf1 + 2 * warp + thread / 16 < M && 64 * f1 + 2 * mf32_word + 4 * (thread % 16) < F) ? f16_from_f32(m_gelu(h_sum1_v[2 * mf32_word])) : 0, (64 * block + 8 * mf1 + 2 * warp + thread / 16 < M && 64 * f1 + 2 * mf32_word + 4 * (thread % 16) + 1 < F) ? f16_from_f32(m_gelu(h_sum1_v[2 * mf32_word + 1])) : 0);
                }
            }
            i__store_shared_f16x4(y_left_v, y_left2 + 512 * mf1);
        }
        // tile fn: 8 -> thread
        #pragma unroll 8
        for (int fn1 = 0; fn1 < 8; fn1++) {
            const uint16_t* W2_fn1 = W2_f1 + 8 * N * fn1;
            uint32_t w2_v[4] = {};
            if (64 * f1 + 8 * fn1 + 2 * warp + thread / 16 < F && 8 * (thread % 16) < N) {
                i__load_global_f16x8(W2_fn1, w2_v);
            } else {
                #pragma unroll
                for (int fn32_word = 0; fn32_word < 4; fn32_word++) w2_v[fn32_word] = 0;
            }
            i__store_shared_f16x8(w2_v, w2_shared2 + 1024 * fn1);
        }
        __syncthreads();  // w2_shared is written before, read after
        // tile f: 16
        #pragma unroll 1
        for (int f6 = 0; f6 < 4; f6++) {
            uint16_t* w2_shared_f6 = w2_shared3 + 2048 * f6;
            uint32_t b1[16][2] = {};
            #pragma unroll
            for (int n1 = 0; n1 < 16; n1++) {
                uint16_t* w2_shared_n1 = w2_shared_f6 + 64 * (n1 / 8) + 8 * ((n1 % 8) ^ (2 * (thread % 4)));
                uint16_t* w2_shared_n1_2 = w2_shared_f6 + 64 * (n1 / 8) + 8 * ((n1 % 8) ^ (2 * (thread % 4) + 1));
                #pragma unroll
                for (int r4_word = 0; r4_word < 2; r4_word++) {
                    b1[n1][r4_word] = m_pack_u16(w2_shared_n1[1024 * r4_word], w2_shared_n1_2[1024 * r4_word + 128]);
                }
            }
            uint32_t a1[4];
            #pragma unroll
            for (int r51 = 0; r51 < 4; r51++) {
                uint16_t* y_left_r51 = y_left3 + 512 * (r51 % 2) + 8 * ((2 * f6 + r51 / 2) ^ (thread / 4));
                i__load_shared_f16x2(y_left_r51, (uint32_t (&)[1])a1[r51]);
            }
            #pragma unroll
            for (int n2 = 0; n2 < 16; n2++) i__mma_m16n8k16_f16(a1, b1[n2], y[n2]);
        }
    }
    #pragma unroll
    for (int n4 = 0; n4 < 16; n4++) {
        float* Y_n4 = Y2 + 8 * n4;
        #pragma unroll
        for (int r71 = 0; r71 < 2; r71++) {
            float* Y_r71 = Y_n4 + 8 * N * r71;
            if (64 * block + 8 * r71 + 16 * warp + thread / 4 < M && 8 * n4 + 2 * (thread % 4) < N) {
                i__store_global_f32x2((float (&)[2])y[n4][2 * r71], Y_r71);
            }
        }
    }
}
