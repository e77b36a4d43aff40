static void launch__separable_Y(const Args* args, int core, int member) {
    const float* I = args->I;
    const float* F = args->F;
    const float* G = args->G;
    float* Y = args->Y;
    const int64_t cores_ = args->cores_;
    const int64_t N = args->N;
    const int64_t P = args->P;
    const int64_t Q = args->Q;
    float* d = (float*)(args->space + args->private_at + member * args->private_step + args->at_d);
    const int64_t C = args->C;
    const int64_t R = args->R;
    const int64_t S = args->S;
    const int64_t H = args->H;
    const int64_t W = args->W;
    const int64_t I_ahead = 4 * C * H * N * W >= 524288 ? 64 : 0;  // asked for so early, where no cache of a core holds it
    const int64_t O = args->O;
    // tile n: 1, p: 1 -> core
    for (int64_t tile = core; tile < N * P; tile += cores_) {
        const int64_t n1 = tile / P;
        const float* I_tile = I + C * H * W * n1;
        float* Y_tile = Y + O * P * Q * n1;
        const int64_t p1 = tile % P;
        const float* I_tile2 = I_tile + W * p1;
        float* Y_tile2 = Y_tile + Q * p1;
        // tile q: 64
        for (int64_t q1 = 0; q1 < (Q + 63) / 64; q1++) {
            const float* I_q1 = I_tile2 + 64 * q1;
            float* Y_q1 = Y_tile2 + 64 * q1;
            // tile c: 1, q: 32
            for (int64_t c1 = 0; c1 < C; c1++) {
                const float* F_c1 = F + R * S * c1;
                const float* I_c1 = I_q1 + H * W * c1;
                float* d_c1 = d + 64 * c1;
                for (int64_t q2 = 0; q2 < floordiv(imin(64, Q - 64 * q1) + 31, 32); q2++) {
                    const float* I_q2 = I_c1 + 32 * q2;
                    f32x8 d_sum1_0_0 = (f32x8){};
                    f32x8 d_sum1_1_0 = (f32x8){};
                    f32x8 d_sum1_2_0 = (f32x8){};
                    f32x8 d_sum1_3_0 = (f32x8){};
                    // tile r: 1, s: 1
                    for (int64_t r1 = 0; r1 < R; r1++) {
                        const float* F_r1 = F_c1 + S * r1;
                        const float* I_r1 = I_q2 + W * r1;
                        for (int64_t s1 = 0; s1 < S; s1++) {
                            float a = F_r1[s1];
                            if (p1 + r1 > 0 && p1 + r1 <= H) {
                                if (64 * q1 + 32 * q2 + 32 <= Q && 64 * q1 + 32 * q2 + s1 > 0 && 64 * q1 + 32 * q2 + s1 + 31 <= W) {
                                    if (I_ahead) __builtin_prefetch(I_r1 + s1 - W - 1 + I_ahead);
                                    f32x8 b = load_f32x8(I_r1 + s1 - W - 1);
                                    i__fma_f32x8(a, b, d_sum1_0_0);
                                    if (I_ahead) __builtin_prefetch(I_r1 + s1 - W + 7 + I_ahead);
                                    f32x8 b2 = load_f32x8(I_r1 + s1 - W + 7);
                                    i__fma_f32x8(a, b2, d_sum1_1_0);
                                    if (I_ahead) __builtin_prefetch(I_r1 + s1 - W + 15 + I_ahead);
                                    f32x8 b3 = load_f32x8(I_r1 + s1 - W + 15);
                                    i__fma_f32x8(a, b3, d_sum1_2_0);
                                    if (I_ahead) __builtin_prefetch(I_r1 + s1 - W + 23 + I_ahead);
                                    f32x8 b4 = load_f32x8(I_r1 + s1 - W + 23);
                                    i__fma_f32x8(a, b4, d_sum1_3_0);
                                } else {
                                    f32x8 b = load_between_f32x8(I_r1 + s1 - W - 1, imax(0, 1 - 64 * q1 - 32 * q2 - s1), imin(imin(8, Q - 64 * q1 - 32 * q2), W - 64 * q1 - 32 * q2 - s1 + 1));
                                    i__fma_f32x8(a, b, d_sum1_0_0);
                                    f32x8 b2 = load_part_f32x8(I_r1 + s1 - W + 7, imin(Q - 64 * q1 - 32 * q2 - 8, W - 64 * q1 - 32 * q2 - s1 - 7));
                                    i__fma_f32x8(a, b2, d_sum1_1_0);
                                    f32x8 b3 = load_part_f32x8(I_r1 + s1 - W + 15, imin(Q - 64 * q1 - 32 * q2 - 16, W - 64 * q1 - 32 * q2 - s1 - 15));
                                    i__fma_f32x8(a, b3, d_sum1_2_0);
                                    f32x8 b4 = load_part_f32x8(I_r1 + s1 - W + 23, imin(Q - 64 * q1 - 32 * q2 - 24, W - 64 * q1 - 32 * q2 - s1 - 23));
                                    i__fma_f32x8(a, b4, d_sum1_3_0);
                                }
                            } else {
                                f32x8 b = (f32x8){};
                                i__fma_f32x8(a, b, d_sum1_0_0);
                                f32x8 b2 = (f32x8){};
                                i__fma_f32x8(a, b2, d_sum1_1_0);
                                f32x8 b3 = (f32x8){};
                                i__fma_f32x8(a, b3, d_sum1_2_0);
                                f32x8 b4 = (f32x8){};
                                i__fma_f32x8(a, b4, d_sum1_3_0);
                            }
                        }
                    }
                    if (64 * q1 + 32 * q2 + 32 <= Q) {
                        store(d_c1 + 32 * q2, m_relu(d_sum1_0_0));
                        store(d_c1 + 32 * q2 + 8, m_relu(d_sum1_1_0));
                        store(d_c1 + 32 * q2 + 16, m_relu(d_sum1_2_0));
                        store(d_c1 + 32 * q2 + 24, m_relu(d_sum1_3_0));
                    } else {
                        store_part(d_c1 + 32 * q2, Q - 64 * q1 - 32 * q2, m_relu(d_sum1_0_0));
                        store_part(d_c1 + 32 * q2 + 8, Q - 64 * q1 - 32 * q2 - 8, m_relu(d_sum1_1_0));
                        store_part(d_c1 + 32 * q2 + 16, Q - 64 * q1 - 32 * q2 - 16, m_relu(d_sum1_2_0));
                        store_part(d_c1 + 32 * q2 + 24, Q - 64 * q1 - 32 * q2 - 24, m_relu(d_sum1_3_0));
                    }
                }
            }
            // tile o: 4, q: 16
            for (int64_t o1 = 0; o1 < (O + 3) / 4; o1++) {
                const float* G_o1 = G + 4 * C * o1;
                float* Y_o1 = Y_q1 + 4 * P * Q * o1;
                for (int64_t q6 = 0; q6 < imin(4, Q / 16 - 4 * q1); q6++) {
                    float* d_q6 = d + 16 * q6;
                    if (4 * o1 + 4 <= O) {
                        f32x8 y_0_0_0 = (f32x8){};
                        f32x8 y_0_1_0 = (f32x8){};
                        f32x8 y_1_0_0 = (f32x8){};
                        f32x8 y_1_1_0 = (f32x8){};
                        f32x8 y_2_0_0 = (f32x8){};
                        f32x8 y_2_1_0 = (f32x8){};
                        f32x8 y_3_0_0 = (f32x8){};
                        f32x8 y_3_1_0 = (f32x8){};
                        // tile c: 1 unroll 4
                        m_unroll(4)
                        for (int64_t c2 = 0; c2 < C; c2++) {
                            float a1_0_0 = G_o1[c2];
                            float a1_1_0 = G_o1[c2 + C];
                            float a1_2_0 = G_o1[c2 + 2 * C];
                            float a1_3_0 = G_o1[c2 + 3 * C];
                            f32x8 b1_0_0 = load_f32x8(d_q6 + 64 * c2);
                            f32x8 b1_1_0 = load_f32x8(d_q6 + 64 * c2 + 8);
                            i__fma_f32x8(a1_0_0, b1_0_0, y_0_0_0);
                            i__fma_f32x8(a1_0_0, b1_1_0, y_0_1_0);
                            i__fma_f32x8(a1_1_0, b1_0_0, y_1_0_0);
                            i__fma_f32x8(a1_1_0, b1_1_0, y_1_1_0);
                            i__fma_f32x8(a1_2_0, b1_0_0, y_2_0_0);
                            i__fma_f32x8(a1_2_0, b1_1_0, y_2_1_0);
                            i__fma_f32x8(a1_3_0, b1_0_0, y_3_0_0);
                            i__fma_f32x8(a1_3_0, b1_1_0, y_3_1_0);
                        }
                        store(Y_o1 + 16 * q6, y_0_0_0);
                        store(Y_o1 + 16 * q6 + 8, y_0_1_0);
                        store(Y_o1 + 16 * q6 + P * Q, y_1_0_0);
                        store(Y_o1 + 16 * q6 + P * Q + 8, y_1_1_0);
                        store(Y_o1 + 16 * q6 + 2 * P * Q, y_2_0_0);
                        store(Y_o1 + 16 * q6 + 2 * P * Q + 8, y_2_1_0);
                        store(Y_o1 + 16 * q6 + 3 * P * Q, y_3_0_0);
                        store(Y_o1 + 16 * q6 + 3 * P * Q + 8, y_3_1_0);
                    } else {
                        [=]() m_outlined {
                            f32x8 y_0_0_0 = (f32x8){};
                            f32x8 y_0_1_0 = (f32x8){};
                            f32x8 y_1_0_0 = (f32x8){};
                            f32x8 y_1_1_0 = (f32x8){};
                            f32x8 y_2_0_0 = (f32x8){};
                            f32x8 y_2_1_0 = (f32x8){};
                            f32x8 y_3_0_0 = (f32x8){};
                            f32x8 y_3_1_0 = (f32x8){};
                            m_unroll(4)
                            for (int64_t c2 = 0; c2 < C; c2++) {
                                float a1_0_0 = (4 * o1 < O) ? G_o1[c2] : 0.0f;
                                float a1_1_0 = (4 * o1 + 2 <= O) ? G_o1[c2 + C] : 0.0f;
                                float a1_2_0 = (4 * o1 + 3 <= O) ? G_o1[c2 + 2 * C] : 0.0f;
                                float a1_3_0 = 0.0f;
                                f32x8 b1_0_0 = load_f32x8(d_q6 + 64 * c2);
                                f32x8 b1_1_0 = load_f32x8(d_q6 + 64 * c2 + 8);
                                i__fma_f32x8(a1_0_0, b1_0_0, y_0_0_0);
                                i__fma_f32x8(a1_0_0, b1_1_0, y_0_1_0);
                                i__fma_f32x8(a1_1_0, b1_0_0, y_1_0_0);
                                i__fma_f32x8(a1_1_0, b1_1_0, y_1_1_0);
                                i__fma_f32x8(a1_2_0, b1_0_0, y_2_0_0);
                                i__fma_f32x8(a1_2_0, b1_1_0, y_2_1_0);
                                i__fma_f32x8(a1_3_0, b1_0_0, y_3_0_0);
                                i__fma_f32x8(a1_3_0, b1_1_0, y_3_1_0);
                            }
                            if (4 * o1 < O) store(Y_o1 + 16 * q6, y_0_0_0);
                            if (4 * o1 < O) store(Y_o1 + 16 * q6 + 8, y_0_1_0);
                            if (4 * o1 + 2 <= O) store(Y_o1 + 16 * q6 + P * Q, y_1_0_0);
                            if (4 * o1 + 2 <= O) store(Y_o1 + 16 * q6 + P * Q + 8, y_1_1_0);
                            if (4 * o1 + 3 <= O) store(Y_o1 + 16 * q6 + 2 * P * Q, y_2_0_0);
                            if (4 * o1 + 3 <= O) store(Y_o1 + 16 * q6 + 2 * P * Q + 8, y_2_1_0);
                        }();
                    }
                }
                for (int64_t q6 = imin(4, Q / 16 - 4 * q1); q6 < floordiv(imin(64, Q - 64 * q1) + 15, 16); q6++) {
                    float* d_q6 = d + 16 * q6;
                    [=]() m_outlined {
                        f32x8 y_0_0_0 = (f32x8){};
                        f32x8 y_0_1_0 = (f32x8){};
                        f32x8 y_1_0_0 = (f32x8){};
                        f32x8 y_1_1_0 = (f32x8){};
                        f32x8 y_2_0_0 = (f32x8){};
                        f32x8 y_2_1_0 = (f32x8){};
                        f32x8 y_3_0_0 = (f32x8){};
                        f32x8 y_3_1_0 = (f32x8){};
                        m_unroll(4)
                        for (int64_t c2 = 0; c2 < C; c2++) {
                            float a1_0_0 = (4 * o1 < O) ? G_o1[c2] : 0.0f;
                            float a1_1_0 = (4 * o1 + 2 <= O) ? G_o1[c2 + C] : 0.0f;
                            float a1_2_0 = (4 * o1 + 3 <= O) ? G_o1[c2 + 2 * C] : 0.0f;
                            float a1_3_0 = (4 * o1 + 4 <= O) ? G_o1[c2 + 3 * C] : 0.0f;
                            f32x8 b1_0_0 = load_part_f32x8(d_q6 + 64 * c2, Q - 64 * q1 - 16 * q6);
                            f32x8 b1_1_0 = load_part_f32x8(d_q6 + 64 * c2 + 8, Q - 64 * q1 - 16 * q6 - 8);
                            i__fma_f32x8(a1_0_0, b1_0_0, y_0_0_0);
                            i__fma_f32x8(a1_0_0, b1_1_0, y_0_1_0);
                            i__fma_f32x8(a1_1_0, b1_0_0, y_1_0_0);
                            i__fma_f32x8(a1_1_0, b1_1_0, y_1_1_0);
                            i__fma_f32x8(a1_2_0, b1_0_0, y_2_0_0);
                            i__fma_f32x8(a1_2_0, b1_1_0, y_2_1_0);
                            i__fma_f32x8(a1_3_0, b1_0_0, y_3_0_0);
                            i__fma_f32x8(a1_3_0, b1_1_0, y_3_1_0);
                        }
                        store_part(Y_o1 + 16 * q6, 4 * o1 < O ? Q - 64 * q1 - 16 * q6 : 0, y_0_0_0);
                        store_part(Y_o1 + 16 * q6 + 8, 4 * o1 < O ? Q - 64 * q1 - 16 * q6 - 8 : 0, y_0_1_0);
                        store_part(Y_o1 + 16 * q6 + P * Q, 4 * o1 + 2 <= O ? Q - 64 * q1 - 16 * q6 : 0, y_1_0_0);
                        store_part(Y_o1 + 16 * q6 + P * Q + 8, 4 * o1 + 2 <= O ? Q - 64 * q1 - 16 * q6 - 8 : 0, y_1_1_0);
                        store_part(Y_o1 + 16 * q6 + 2 * P * Q, 4 * o1 + 3 <= O ? Q - 64 * q1 - 16 * q6 : 0, y_2_0_0);
                        store_part(Y_o1 + 16 * q6 + 2 * P * Q + 8, 4 * o1 + 3 <= O ? Q - 64 * q1 - 16 * q6 - 8 : 0, y_2_1_0);
                        store_part(Y_o1 + 16 * q6 + 3 * P * Q, 4 * o1 + 4 <= O ? Q - 64 * q1 - 16 * q6 : 0, y_3_0_0);
                        store_part(Y_o1 + 16 * q6 + 3 * P * Q + 8, 4 * o1 + 4 <= O ? Q - 64 * q1 - 16 * q6 - 8 : 0, y_3_1_0);
                    }();
                }
            }
        }
    }
}
