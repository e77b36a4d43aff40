static void launch__main_(const Args* args, int core, int) {
    const float* X = args->X;
    float* Y = args->Y;
    const int64_t cores_ = args->cores_;
    const int64_t N = args->N;
    for (int64_t i = 32 * core; i < N; i += 32 * cores_) {
        const float* X_i = X + i;
        float* Y_i = Y + i;
        m_unroll(4)
        for (int64_t u = 0; u < 4; u++) {
            if (i + 8 * u + 8 <= N) {
                store(Y_i + 8 * u, m_relu(load_f32x8(X_i + 8 * u)));
            } else if (N - i - 8 * u > 0) {
                store_part(Y_i + 8 * u, N - i - 8 * u, m_relu(load_part_f32x8(X_i + 8 * u, N - i - 8 * u)));
            }
        }
    }
}
