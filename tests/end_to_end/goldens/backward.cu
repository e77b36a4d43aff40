// attention_backward_dk
//   shared: k_shared 8192 bytes, v_shared 8192 bytes, q_shared 8192 bytes, do_shared 8192 bytes,
//     s_sum1 16384 bytes, dp1 16384 bytes, dv_left 8192 bytes, dk_left 8192 bytes
//   registers: dk1 32 x f32, dv1 32 x f32, s_sum11 32 x f32, b 8 x f16, a 8 x f16, dp2 32 x f32, b1 8 x f16,
//     a1 8 x f16, b2 32 x f16, a2 8 x f16, b3 32 x f16, a3 8 x f16
constexpr int andiron_attention_backward__attention_backward_dk__THREADS = 128;  // of a block: 4 warps x 32 threads

extern "C" __global__ void __launch_bounds__(andiron_attention_backward__attention_backward_dk__THREADS, 1)
andiron_attention_backward__attention_backward_dk(const uint16_t* __restrict__ q, const uint16_t* __restrict__ k, const uint16_t* __restrict__ v, const uint16_t* __restrict__ dO, const float* __restrict__ lse, const float* __restrict__ delta, float* __restrict__ dk, float* __restrict__ dv, int Q, int T, int D) {
    extern __shared__ __attribute__((aligned(16))) unsigned char m_shared[];
    const int block = blockIdx.x;
    uint16_t* k_shared = (uint16_t*)m_shared;
    const int warp = threadIdx.x / 32;
    const int thread = threadIdx.x % 32;
    const uint16_t* k2 = k + 8 * (thread % 8) + 4 * D * warp + D * (thread / 8);
    uint16_t* k_shared2 = k_shared + 256 * warp + 64 * (thread / 8) + 8 * ((thread / 8 + 4 * (warp % 2)) ^ (thread % 8));
    uint16_t* v_shared = (uint16_t*)(m_shared + 8192);
    const uint16_t* v2 = v + 8 * (thread % 8) + 4 * D * warp + D * (thread / 8);
    uint16_t* v_shared2 = v_shared + 256 * warp + 64 * (thread / 8) + 8 * ((thread / 8 + 4 * (warp % 2)) ^ (thread % 8));
    uint16_t* q_shared = (uint16_t*)(m_shared + 16384);
    uint16_t* q_shared2 = q_shared + 256 * warp + 64 * (thread / 8) + 8 * ((thread / 8 + 4 * (warp % 2)) ^ (thread % 8));
    uint16_t* do_shared = (uint16_t*)(m_shared + 24576);
    uint16_t* do_shared2 = do_shared + 256 * warp + 64 * (thread / 8) + 8 * ((thread / 8 + 4 * (warp % 2)) ^ (thread % 8));
    float* s_sum1 = (float*)(m_shared + 32768);
    uint16_t* k_shared3 = k_shared + 1024 * warp + 64 * (thread / 4) + 2 * (thread % 4);
    uint16_t* q_shared3 = q_shared + 64 * (thread / 4) + 2 * (thread % 4);
    float* s_sum1_2 = s_sum1 + 16 * warp + 64 * (thread / 4) + 2 * (thread % 4);
    float* dp1 = (float*)(m_shared + 49152);
    uint16_t* v_shared3 = v_shared + 1024 * warp + 64 * (thread / 4) + 2 * (thread % 4);
    uint16_t* do_shared3 = do_shared + 64 * (thread / 4) + 2 * (thread % 4);
    float* dp1_2 = dp1 + 16 * warp + 64 * (thread / 4) + 2 * (thread % 4);
    uint16_t* dv_left = (uint16_t*)(m_shared + 65536);
    float* s_sum1_3 = s_sum1 + 4 * thread + 128 * warp;
    uint16_t* dv_left2 = dv_left + 128 * warp + 64 * (thread / 16) + 4 * (thread % 2) + 8 * ((2 * warp + thread / 16) ^ (thread / 2 % 8));
    uint16_t* dk_left = (uint16_t*)(m_shared + 73728);
    float* dp1_3 = dp1 + 4 * thread + 128 * warp;
    uint16_t* dk_left2 = dk_left + 128 * warp + 64 * (thread / 16) + 4 * (thread % 2) + 8 * ((2 * warp + thread / 16) ^ (thread / 2 % 8));
    uint16_t* do_shared4 = do_shared + thread / 4 + 128 * (thread % 4);
    uint16_t* dv_left3 = dv_left + thread / 4 + 128 * (thread % 4);
    uint16_t* q_shared4 = q_shared + thread / 4 + 128 * (thread % 4);
    uint16_t* dk_left3 = dk_left + thread / 4 + 128 * (thread % 4);
    float* dv2 = dv + 2 * (thread % 4) + 16 * D * warp + D * (thread / 4);
    float* dk2 = dk + 2 * (thread % 4) + 16 * D * warp + D * (thread / 4);
    const int T_tiles = (T + 63) / 64;
    const int h1 = block / T_tiles;
    const uint16_t* q3 = q + 8 * (thread % 8) + 4 * D * warp + D * (thread / 8) + (int64_t)D * Q * h1;
    const uint16_t* dO3 = dO + 8 * (thread % 8) + 4 * D * warp + D * (thread / 8) + (int64_t)D * Q * h1;
    const float* lse3 = lse + 2 * warp + thread / 16 + (int64_t)Q * h1;
    const float* delta3 = delta + 2 * warp + thread / 16 + (int64_t)Q * h1;
    const int t1_ = block % T_tiles;
    const uint16_t* k4 = k2 + (int64_t)D * T * h1 + 64 * (int64_t)(D * t1_);
    const uint16_t* v4 = v2 + (int64_t)D * T * h1 + 64 * (int64_t)(D * t1_);
    float* dv4 = dv2 + (int64_t)D * T * h1 + 64 * (int64_t)(D * t1_);
    float* dk4 = dk2 + (int64_t)D * T * h1 + 64 * (int64_t)(D * t1_);
    float dk1[8][4] = {};
    float dv1[8][4] = {};
    // tile htd: 8 -> thread
    for (int htd1 = 0; htd1 < 4; htd1++) {
        const uint16_t* k_htd1 = k4 + 16 * D * htd1;
        uint32_t k_v[4] = {};
        if (16 * htd1 + 64 * t1_ + 4 * warp + thread / 8 < T && 8 * (thread % 8) < D) {
            i__load_global_f16x8(k_htd1, k_v);
        } else {
            #pragma unroll
            for (int htd32_word = 0; htd32_word < 4; htd32_word++) k_v[htd32_word] = 0;
        }
        i__store_shared_f16x8(k_v, k_shared2 + 1024 * htd1);
    }
    // tile htd: 8 -> thread
    for (int htd4 = 0; htd4 < 4; htd4++) {
        const uint16_t* v_htd4 = v4 + 16 * D * htd4;
        uint32_t v_v[4] = {};
        if (16 * htd4 + 64 * t1_ + 4 * warp + thread / 8 < T && 8 * (thread % 8) < D) {
            i__load_global_f16x8(v_htd4, v_v);
        } else {
            #pragma unroll
            for (int htd62_word = 0; htd62_word < 4; htd62_word++) v_v[htd62_word] = 0;
        }
        i__store_shared_f16x8(v_v, v_shared2 + 1024 * htd4);
    }
    // tile i: 64
    for (int i1 = 0; i1 < (Q + 63) / 64; i1++) {
        const uint16_t* q_i1 = q3 + 64 * (int64_t)(D * i1);
        const uint16_t* dO_i1 = dO3 + 64 * (int64_t)(D * i1);
        const float* lse_i1 = lse3 + 64 * i1;
        const float* delta_i1 = delta3 + 64 * i1;
        __syncthreads();  // q_shared is read before, written after
        // tile hid: 8 -> thread
        #pragma unroll 4
        for (int hid1 = 0; hid1 < 4; hid1++) {
            const uint16_t* q_hid1 = q_i1 + 16 * D * hid1;
            uint32_t q_v[4] = {};
            if (16 * hid1 + 64 * i1 + 4 * warp + thread / 8 < Q && 8 * (thread % 8) < D) {
                i__load_global_f16x8(q_hid1, q_v);
            } else {
                #pragma unroll
                for (int hid32_word = 0; hid32_word < 4; hid32_word++) q_v[hid32_word] = 0;
            }
            i__store_shared_f16x8(q_v, q_shared2 + 1024 * hid1);
        }
        // tile hid: 8 -> thread
        #pragma unroll 4
        for (int hid4 = 0; hid4 < 4; hid4++) {
            const uint16_t* dO_hid4 = dO_i1 + 16 * D * hid4;
            uint32_t do_v[4] = {};
            if (16 * hid4 + 64 * i1 + 4 * warp + thread / 8 < Q && 8 * (thread % 8) < D) {
                i__load_global_f16x8(dO_hid4, do_v);
            } else {
                #pragma unroll
                for (int hid62_word = 0; hid62_word < 4; hid62_word++) do_v[hid62_word] = 0;
            }
            i__store_shared_f16x8(do_v, do_shared2 + 1024 * hid4);
        }
        float s_sum11[4][2][4] = {};
        __syncthreads();  // q_shared is written before, read after
        // tile d: 16
        for (int d1 = 0; d1 < (D + 15) / 16; d1++) {
            uint32_t b[2][2];
            uint16_t* k_shared_r16[2];
            #pragma unroll
            for (int r16 = 0; r16 < 2; r16++) {
                k_shared_r16[r16] = k_shared3 + 8 * ((2 * d1 + r16) ^ (thread / 4));
            }
            uint16_t* q_shared_r18[4];
            #pragma unroll
            for (int r18 = 0; r18 < 4; r18++) {
                q_shared_r18[r18] = q_shared3 + 512 * (r18 % 2) + 8 * ((2 * d1 + r18 / 2) ^ (thread / 4));
            }
            #pragma unroll
            for (int t2_ = 0; t2_ < 2; t2_++) {
                #pragma unroll
                for (int r16 = 0; r16 < 2; r16++) {
                    i__load_shared_f16x2(k_shared_r16[r16] + 512 * t2_, (uint32_t (&)[1])b[t2_][r16]);
                }
            }
            #pragma unroll
            for (int i2 = 0; i2 < 4; i2++) {
                uint32_t a[4];
                #pragma unroll
                for (int r18 = 0; r18 < 4; r18++) {
                    i__load_shared_f16x2(q_shared_r18[r18] + 1024 * i2, (uint32_t (&)[1])a[r18]);
                }
                #pragma unroll
                for (int t3_ = 0; t3_ < 2; t3_++) i__mma_m16n8k16_f16(a, b[t3_], s_sum11[i2][t3_]);
            }
        }
        #pragma unroll
        for (int i4_ = 0; i4_ < 4; i4_++) {
            float* s_sum1_i4 = s_sum1_2 + 1024 * i4_;
            #pragma unroll
            for (int t5_ = 0; t5_ < 2; t5_++) {
                float* s_sum1_t5 = s_sum1_i4 + 8 * t5_;
                #pragma unroll
                for (int r31 = 0; r31 < 2; r31++) {
                    float* s_sum1_r31 = s_sum1_t5 + 512 * r31;
                    if (64 * i1 + 16 * i4_ + 8 * r31 + thread / 4 < Q && 64 * t1_ + 8 * t5_ + 16 * warp + 2 * (thread % 4) + 1 < T) {
                        i__store_shared_f32x2((float (&)[2])s_sum11[i4_][t5_][2 * r31], s_sum1_t5 + 512 * r31);
                    } else {
                        #pragma unroll
                        for (int r32 = 0; r32 < 2; r32++) {
                            if (64 * i1 + 16 * i4_ + 8 * r31 + thread / 4 < Q && r32 + 64 * t1_ + 8 * t5_ + 16 * warp + 2 * (thread % 4) < T) {
                                s_sum1_r31[r32] = s_sum11[i4_][t5_][2 * r31 + r32];
                            }
                        }
                    }
                }
            }
        }
        float dp2[4][2][4] = {};
        // tile d: 16
        for (int d2 = 0; d2 < (D + 15) / 16; d2++) {
            uint32_t b1[2][2];
            uint16_t* v_shared_r41[2];
            #pragma unroll
            for (int r41 = 0; r41 < 2; r41++) {
                v_shared_r41[r41] = v_shared3 + 8 * ((2 * d2 + r41) ^ (thread / 4));
            }
            uint16_t* do_shared_r51[4];
            #pragma unroll
            for (int r51 = 0; r51 < 4; r51++) {
                do_shared_r51[r51] = do_shared3 + 512 * (r51 % 2) + 8 * ((2 * d2 + r51 / 2) ^ (thread / 4));
            }
            #pragma unroll
            for (int t6_ = 0; t6_ < 2; t6_++) {
                #pragma unroll
                for (int r41 = 0; r41 < 2; r41++) {
                    i__load_shared_f16x2(v_shared_r41[r41] + 512 * t6_, (uint32_t (&)[1])b1[t6_][r41]);
                }
            }
            #pragma unroll
            for (int i5 = 0; i5 < 4; i5++) {
                uint32_t a1[4];
                #pragma unroll
                for (int r51 = 0; r51 < 4; r51++) {
                    i__load_shared_f16x2(do_shared_r51[r51] + 1024 * i5, (uint32_t (&)[1])a1[r51]);
                }
                #pragma unroll
                for (int t7_ = 0; t7_ < 2; t7_++) i__mma_m16n8k16_f16(a1, b1[t7_], dp2[i5][t7_]);
            }
        }
        #pragma unroll
        for (int i7 = 0; i7 < 4; i7++) {
            float* dp1_i7 = dp1_2 + 1024 * i7;
            #pragma unroll
            for (int t9_ = 0; t9_ < 2; t9_++) {
                float* dp1_t9 = dp1_i7 + 8 * t9_;
                #pragma unroll
                for (int r71 = 0; r71 < 2; r71++) {
                    float* dp1_r71 = dp1_t9 + 512 * r71;
                    if (64 * i1 + 16 * i7 + 8 * r71 + thread / 4 < Q && 64 * t1_ + 8 * t9_ + 16 * warp + 2 * (thread % 4) + 1 < T) {
                        i__store_shared_f32x2((float (&)[2])dp2[i7][t9_][2 * r71], dp1_t9 + 512 * r71);
                    } else {
                        #pragma unroll
                        for (int r72 = 0; r72 < 2; r72++) {
                            if (64 * i1 + 16 * i7 + 8 * r71 + thread / 4 < Q && r72 + 64 * t1_ + 8 * t9_ + 16 * warp + 2 * (thread % 4) < T) {
                                dp1_r71[r72] = dp2[i7][t9_][2 * r71 + r72];
                            }
                        }
                    }
                }
            }
        }
        __syncthreads();  // s_sum1 is written before, read after
        // tile hit: 4 -> thread
        #pragma unroll 8
        for (int hit1 = 0; hit1 < 8; hit1++) {
            float* s_sum1_hit1 = s_sum1_3 + 512 * hit1;
            float s_sum1_v[4];
            uint32_t dv_left_v[2] = {};
            if (8 * hit1 + 64 * i1 + 2 * warp + thread / 16 < Q && 64 * t1_ + 4 * (thread % 16) + 3 < T) {
                i__load_shared_f32x4(s_sum1_3 + 512 * hit1, s_sum1_v);
                #pragma unroll
                for (int hit32_word = 0; hit32_word < 2; hit32_word++) {
                    dv_left_v[hit32_word] = m_pack_u16(f16_from_f32(m_exp(s_sum1_v[2 * hit32_word] * m_rsqrt((float)(int64_t)D) - lse_i1[8 * hit1])), f16_from_f32(m_exp(s_sum1_v[2 * hit32_word + 1] * m_rsqrt((float)(int64_t)D) - lse_i1[8 * hit1])));
                }
            } else {
                #pragma unroll
                for (int hit32_word = 0; hit32_word < 2; hit32_word++) {
                    if (8 * hit1 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit32_word + 64 * t1_ + 4 * (thread % 16) < T) {
                        s_sum1_v[2 * hit32_word] = s_sum1_hit1[2 * hit32_word];
                    }
                    if (8 * hit1 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit32_word + 64 * t1_ + 4 * (thread % 16) + 1 < T) {
                        s_sum1_v[2 * hit32_word + 1] = s_sum1_hit1[2 * hit32_word + 1];
                    }
                }
                #pragma unroll
                for (int hit32_word = 0; hit32_word < 2; hit32_word++) {
                    dv_left_v[hit32_word] = m_pack_u16((8 * hit1 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit32_word + 64 * t1_ + 4 * (thread % 16) < T) ? f16_from_f32(m_exp(s_sum1_v[2 * hit32_word] * m_rsqrt((float)(int64_t)D) - lse_i1[8 * hit1])) : 0, (8 * hit1 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit32_word + 64 * t1_ + 4 * (thread % 16) + 1 < T) ? f16_from_f32(m_exp(s_sum1_v[2 * hit32_word + 1] * m_rsqrt((float)(int64_t)D) - lse_i1[8 * hit1])) : 0);
                }
            }
            i__store_shared_f16x4(dv_left_v, dv_left2 + 512 * hit1);
        }
        // tile hit: 4 -> thread
        #pragma unroll 4
        for (int hit4 = 0; hit4 < 8; hit4++) {
            float* s_sum1_hit4 = s_sum1_3 + 512 * hit4;
            float* dp1_hit4 = dp1_3 + 512 * hit4;
            float s_sum1_v1[4];
            float dp1_v[4];
            uint32_t dk_left_v[2] = {};
            if (8 * hit4 + 64 * i1 + 2 * warp + thread / 16 < Q && 64 * t1_ + 4 * (thread % 16) + 3 < T) {
                i__load_shared_f32x4(s_sum1_3 + 512 * hit4, s_sum1_v1);
                i__load_shared_f32x4(dp1_3 + 512 * hit4, dp1_v);
                #pragma unroll
                for (int hit62_word = 0; hit62_word < 2; hit62_word++) {
                    dk_left_v[hit62_word] = m_pack_u16(f16_from_f32(m_exp(s_sum1_v1[2 * hit62_word] * m_rsqrt((float)(int64_t)D) - lse_i1[8 * hit4]) * (dp1_v[2 * hit62_word] - delta_i1[8 * hit4]) * m_rsqrt((float)(int64_t)D)), f16_from_f32(m_exp(s_sum1_v1[2 * hit62_word + 1] * m_rsqrt((float)(int64_t)D) - lse_i1[8 * hit4]) * (dp1_v[2 * hit62_word + 1] - delta_i1[8 * hit4]) * m_rsqrt((float)(int64_t)D)));
                }
            } else {
                #pragma unroll
                for (int hit62_word = 0; hit62_word < 2; hit62_word++) {
                    if (8 * hit4 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit62_word + 64 * t1_ + 4 * (thread % 16) < T) {
                        s_sum1_v1[2 * hit62_word] = s_sum1_hit4[2 * hit62_word];
                    }
                    if (8 * hit4 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit62_word + 64 * t1_ + 4 * (thread % 16) + 1 < T) {
                        s_sum1_v1[2 * hit62_word + 1] = s_sum1_hit4[2 * hit62_word + 1];
                    }
                }
                #pragma unroll
                for (int hit62_word = 0; hit62_word < 2; hit62_word++) {
                    if (8 * hit4 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit62_word + 64 * t1_ + 4 * (thread % 16) < T) {
                        dp1_v[2 * hit62_word] = dp1_hit4[2 * hit62_word];
                    }
                    if (8 * hit4 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit62_word + 64 * t1_ + 4 * (thread % 16) + 1 < T) {
                        dp1_v[2 * hit62_word + 1] = dp1_hit4[2 * hit62_word + 1];
                    }
                }
                #pragma unroll
                for (int hit62_word = 0; hit62_word < 2; hit62_word++) {
                    dk_left_v[hit62_word] = m_pack_u16((8 * hit4 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit62_word + 64 * t1_ + 4 * (thread % 16) < T) ? f16_from_f32(m_exp(s_sum1_v1[2 * hit62_word] * m_rsqrt((float)(int64_t)D) - lse_i1[8 * hit4]) * (dp1_v[2 * hit62_word] - delta_i1[8 * hit4]) * m_rsqrt((float)(int64_t)D)) : 0, (8 * hit4 + 64 * i1 + 2 * warp + thread / 16 < Q && 2 * hit62_word + 64 * t1_ + 4 * (thread % 16) + 1 < T) ? f16_from_f32(m_exp(s_sum1_v1[2 * hit62_word + 1] * m_rsqrt((float)(int64_t)D) - lse_i1[8 * hit4]) * (dp1_v[2 * hit62_word + 1] - delta_i1[8 * hit4]) * m_rsqrt((float)(int64_t)D)) : 0);
                }
            }
            i__store_shared_f16x4(dk_left_v, dk_left2 + 512 * hit4);
        }
        __syncthreads();  // dv_left is written before, read after
        // tile i: 16
        #pragma unroll 1
        for (int i8_ = 0; i8_ < 4; i8_++) {
            uint16_t* do_shared_i8 = do_shared4 + 1024 * i8_;
            uint16_t* dv_left_i8 = dv_left3 + 1024 * i8_;
            uint16_t* q_shared_i8 = q_shared4 + 1024 * i8_;
            uint16_t* dk_left_i8 = dk_left3 + 1024 * i8_;
            uint32_t b2[8][2] = {};
            #pragma unroll
            for (int d3 = 0; d3 < 8; d3++) {
                uint16_t* do_shared_d3 = do_shared_i8 + 8 * (d3 ^ (2 * (thread % 4)));
                uint16_t* do_shared_d3_2 = do_shared_i8 + 8 * (d3 ^ (2 * (thread % 4) + 1));
                #pragma unroll
                for (int r8_word = 0; r8_word < 2; r8_word++) {
                    b2[d3][r8_word] = m_pack_u16(do_shared_d3[512 * r8_word], do_shared_d3_2[512 * r8_word + 64]);
                }
            }
            uint32_t a2[4] = {};
            #pragma unroll
            for (int r9_word = 0; r9_word < 4; r9_word++) {
                uint16_t* dv_left_r9_word = dv_left_i8 + 512 * (r9_word / 2) + 8 * ((2 * warp + r9_word % 2) ^ (2 * (thread % 4)));
                uint16_t* dv_left_r9_word2 = dv_left_i8 + 512 * (r9_word / 2) + 8 * ((2 * warp + r9_word % 2) ^ (2 * (thread % 4) + 1));
                a2[r9_word] = m_pack_u16(dv_left_r9_word[0], dv_left_r9_word2[64]);
            }
            #pragma unroll
            for (int d4 = 0; d4 < 8; d4++) i__mma_m16n8k16_f16(a2, b2[d4], dv1[d4]);
            uint32_t b3[8][2] = {};
            #pragma unroll
            for (int d5 = 0; d5 < 8; d5++) {
                uint16_t* q_shared_d5 = q_shared_i8 + 8 * (d5 ^ (2 * (thread % 4)));
                uint16_t* q_shared_d5_2 = q_shared_i8 + 8 * (d5 ^ (2 * (thread % 4) + 1));
                #pragma unroll
                for (int r10_word = 0; r10_word < 2; r10_word++) {
                    b3[d5][r10_word] = m_pack_u16(q_shared_d5[512 * r10_word], q_shared_d5_2[512 * r10_word + 64]);
                }
            }
            uint32_t a3[4] = {};
            #pragma unroll
            for (int r11_word = 0; r11_word < 4; r11_word++) {
                uint16_t* dk_left_r11_word = dk_left_i8 + 512 * (r11_word / 2) + 8 * ((2 * warp + r11_word % 2) ^ (2 * (thread % 4)));
                uint16_t* dk_left_r11_word2 = dk_left_i8 + 512 * (r11_word / 2) + 8 * ((2 * warp + r11_word % 2) ^ (2 * (thread % 4) + 1));
                a3[r11_word] = m_pack_u16(dk_left_r11_word[0], dk_left_r11_word2[64]);
            }
            #pragma unroll
            for (int d6 = 0; d6 < 8; d6++) i__mma_m16n8k16_f16(a3, b3[d6], dk1[d6]);
        }
    }
    #pragma unroll
    for (int d8 = 0; d8 < 8; d8++) {
        float* dv_d8 = dv4 + 8 * d8;
        #pragma unroll
        for (int r131 = 0; r131 < 2; r131++) {
            float* dv_r131 = dv_d8 + 8 * D * r131;
            if (8 * r131 + 64 * t1_ + 16 * warp + thread / 4 < T && 8 * d8 + 2 * (thread % 4) < D) {
                i__store_global_f32x2((float (&)[2])dv1[d8][2 * r131], dv_r131);
            }
        }
    }
    #pragma unroll
    for (int d10 = 0; d10 < 8; d10++) {
        float* dk_d10 = dk4 + 8 * d10;
        #pragma unroll
        for (int r151 = 0; r151 < 2; r151++) {
            float* dk_r151 = dk_d10 + 8 * D * r151;
            if (8 * r151 + 64 * t1_ + 16 * warp + thread / 4 < T && 8 * d10 + 2 * (thread % 4) < D) {
                i__store_global_f32x2((float (&)[2])dk1[d10][2 * r151], dk_r151);
            }
        }
    }
}
