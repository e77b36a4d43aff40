// Plain loops over memory, the yardstick of the memory-bound benchmarks: what a C compiler makes of the obvious text.
#include <pthread.h>
#include <stdint.h>

typedef struct {
    float *y;
    const float *a, *b;
    int64_t from, to;
    int kind;
    float sum;
} Part;

static void *part(void *p) {
    Part *w = (Part *)p;
    float *restrict y = w->y;
    const float *restrict a = w->a, *restrict b = w->b;
    switch (w->kind) {
        case 0: {  // read: enough sums to hide the latency of additions
            float s[128] = {0};
            for (int64_t i = w->from; i < w->to; i += 128)
                for (int64_t j = 0; j < 128; j++) s[j] += a[i + j];
            for (int j = 0; j < 128; j++) w->sum += s[j];
            break;
        }
        case 1:  // read one, write one
            for (int64_t i = w->from; i < w->to; i++) y[i] = 2.0f * a[i];
            break;
        default:  // read two, write one
            for (int64_t i = w->from; i < w->to; i++) y[i] = a[i] + 2.0f * b[i];
    }
    return 0;
}

// n: a multiple of 128 times the threads, of which there are at most 64
float plain(int kind, float *y, const float *a, const float *b, int64_t n, int threads) {
    pthread_t thread[64];
    Part work[64];
    float sum = 0;
    for (int t = 0; t < threads; t++) {
        work[t] = (Part){y, a, b, n / threads * t, n / threads * (t + 1), kind, 0};
        if (t) pthread_create(&thread[t], 0, part, &work[t]);
    }
    part(&work[0]);
    for (int t = 0; t < threads; t++) {
        if (t) pthread_join(thread[t], 0);
        sum += work[t].sum;
    }
    return sum;
}
