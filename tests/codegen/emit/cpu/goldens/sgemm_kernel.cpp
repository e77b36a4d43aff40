static void launch__main_(const Args* args, int core, int member) {
    const float* A = args->A;
    const float* B = args->B;
    float* C = args->C;
    const int64_t N = args->N;
    const int64_t K = args->K;
    float* Bp = (float*)(args->space + args->at_Bp);
    const int64_t cores_ = args->cores_;
    const int64_t M = args->M;
    float* Ap = (float*)(args->space + args->private_at + member * args->private_step + args->at_Ap);
    for (int64_t n0 = 0; n0 < N; n0 += 64) {
        const float* B_n0 = B + n0;
        float* C_n0 = C + n0;
        const int64_t n_live = imin(64, N - n0);
        for (int64_t k0 = 0; k0 < K; k0 += 64) {
            const float* B_k0 = B_n0 + N * k0;
            const float* A_k0 = A + k0;
            const int64_t k_live = imin(64, K - k0);
            m_barrier(args->cores_);  // B panels of the last block were read
            for (int64_t jp = core; jp < (n_live + 7) / 8; jp += cores_) {
                const float* B_jp = B_k0 + 8 * jp;
                float* Bp_jp = Bp + 512 * jp;
                for (int64_t kk = 0; kk < k_live; kk++) {
                    const float* B_kk = B_jp + N * kk;
                    store(Bp_jp + 8 * kk, load_part_f32x8(B_kk, N - 8 * jp - n0));
                }
            }
            m_barrier(args->cores_);  // B panels are packed
            for (int64_t m0 = 8 * core; m0 < M; m0 += 8 * cores_) {
                const float* A_m0 = A_k0 + K * m0;
                float* C_m0 = C_n0 + N * m0;
                const int64_t m_live_ = imin(8, M - m0);
                for (int64_t ip = 0; ip < (m_live_ + 1) / 2; ip++) {
                    const float* A_ip = A_m0 + 2 * K * ip;
                    float* Ap_ip = Ap + 128 * ip;
                    for (int64_t kk = 0; kk < k_live; kk += 8) {
                        if (kk + 8 <= k_live) {
                            scatter(Ap_ip + 2 * kk, 2, (2 * ip + m0 < M) ? load_f32x8(A_ip + kk) : (f32x8){});
                        } else if (k_live - kk > 0) {
                            scatter_part(Ap_ip + 2 * kk, 2, k_live - kk, (2 * ip + m0 < M) ? load_part_f32x8(A_ip + kk, k_live - kk) : (f32x8){});
                        }
                    }
                    for (int64_t kk = 0; kk < k_live; kk += 8) {
                        if (kk + 8 <= k_live) {
                            scatter(Ap_ip + 2 * kk + 1, 2, (2 * ip + m0 + 2 <= M) ? load_f32x8(A_ip + kk + K) : (f32x8){});
                        } else if (k_live - kk > 0) {
                            scatter_part(Ap_ip + 2 * kk + 1, 2, k_live - kk, (2 * ip + m0 + 2 <= M) ? load_part_f32x8(A_ip + kk + K, k_live - kk) : (f32x8){});
                        }
                    }
                }
                for (int64_t jp = 0; jp < (n_live + 7) / 8; jp++) {
                    float* C_jp = C_m0 + 8 * jp;
                    float* Bp_jp = Bp + 512 * jp;
                    for (int64_t ip = 0; ip < (m_live_ + 1) / 2; ip++) {
                        float* C_ip = C_jp + 2 * N * ip;
                        float* Ap_ip = Ap + 128 * ip;
                        f32x8 c_0_0 = (f32x8){};
                        f32x8 c_1_0 = (f32x8){};
                        i__prefetch(C_ip + 7);
                        i__prefetch(C_ip + N + 7);
                        m_unroll(2)
                        for (int64_t kk = 0; kk < k_live; kk++) {
                            f32x8 b = load_f32x8(Bp_jp + 8 * kk);
                            float a_0 = Ap_ip[2 * kk];
                            i__fma_f32x8(a_0, b, c_0_0);
                            float a_1 = Ap_ip[2 * kk + 1];
                            i__fma_f32x8(a_1, b, c_1_0);
                        }
                        if (2 * ip + m0 < M) {
                            if (8 * jp + n0 + 8 <= N) {
                                if (k0 <= 0) {
                                    store(C_ip, c_0_0);
                                } else {
                                    store(C_ip, load_f32x8(C_ip) + c_0_0);
                                }
                            } else if (N - 8 * jp - n0 > 0) {
                                if (k0 <= 0) {
                                    store_part(C_ip, N - 8 * jp - n0, c_0_0);
                                } else {
                                    store_part(C_ip, N - 8 * jp - n0, load_part_f32x8(C_ip, N - 8 * jp - n0) + c_0_0);
                                }
                            }
                        }
                        if (2 * ip + m0 + 2 <= M) {
                            if (8 * jp + n0 + 8 <= N) {
                                if (k0 <= 0) {
                                    store(C_ip + N, c_1_0);
                                } else {
                                    store(C_ip + N, load_f32x8(C_ip + N) + c_1_0);
                                }
                            } else if (N - 8 * jp - n0 > 0) {
                                if (k0 <= 0) {
                                    store_part(C_ip + N, N - 8 * jp - n0, c_1_0);
                                } else {
                                    store_part(C_ip + N, N - 8 * jp - n0, load_part_f32x8(C_ip + N, N - 8 * jp - n0) + c_1_0);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
