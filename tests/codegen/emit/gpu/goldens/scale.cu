// scale_Y
constexpr int andiron_scale__scale_Y__THREADS = 256;  // of a block: 8 warps x 32 threads

extern "C" __global__ void __launch_bounds__(andiron_scale__scale_Y__THREADS, 1)
andiron_scale__scale_Y(const float* X, const float* __restrict__ s, float* Y, int N) {
    const int thread = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int block = blockIdx.x;
    const float* X2 = X + 4 * thread + 128 * warp + (int64_t)N * block;
    float* Y2 = Y + 4 * thread + 128 * warp + (int64_t)N * block;
    // tile j: 1024
    for (int j1 = 0; j1 < (N + 1023) / 1024; j1++) {
        if (1024 * j1 + 4 * thread + 128 * warp < N) {
            float x_v[4];
            float y_v[4];
            i__load_global_f32x4(X2 + 1024 * j1, x_v);
            #pragma unroll
            for (int j32 = 0; j32 < 4; j32++) y_v[j32] = s[block] * x_v[j32];
            i__store_global_f32x4(y_v, Y2 + 1024 * j1);
        }
    }
}
