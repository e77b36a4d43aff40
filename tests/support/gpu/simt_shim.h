// Just enough of CUDA for g++ to run an emitted kernel of f32: a fiber a thread, blocks one after another. Threads go on in turn at
// each meeting, so a kernel that lacks a barrier reads what is not there yet; shared memory starts as NaNs.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define THREADS_AT_MOST 1024
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };

unsigned char m_shared[256 << 10] __attribute__((aligned(16)));
static struct { unsigned x; } blockIdx, threadIdx;

struct Meeting { int arrived, turn; };
static Meeting of_block, of_lanes[THREADS_AT_MOST];
static ucontext_t scheduler, fiber[THREADS_AT_MOST];
static bool done[THREADS_AT_MOST];
static int threads_now;
static uint64_t slot[THREADS_AT_MOST];
static void (*body)(void*);
static void* body_of;

static void meet(Meeting& m, int count) {
    const int turn = m.turn;
    if (++m.arrived == count) {
        m.arrived = 0;
        m.turn++;
    }
    while (m.turn == turn) swapcontext(&fiber[threadIdx.x], &scheduler);
}
static inline void __syncthreads() { meet(of_block, threads_now); }
static inline void meet_lanes(unsigned mask) {
    meet(of_lanes[threadIdx.x / 32 * 32 + __builtin_ctz(mask)], __builtin_popcount(mask));
}
static inline void __syncwarp() { meet_lanes(~0u); }
template <class T>
static T __shfl_xor_sync(unsigned mask, T x, int distance) {
    memcpy(&slot[threadIdx.x], &x, sizeof x);
    meet_lanes(mask);
    memcpy(&x, &slot[threadIdx.x ^ distance], sizeof x);
    meet_lanes(mask);
    return x;
}
static inline int __float_as_int(float x) { int y; memcpy(&y, &x, 4); return y; }
static inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }

static void one_thread() {
    body(body_of);
    done[threadIdx.x] = true;
    swapcontext(&fiber[threadIdx.x], &scheduler);
}

static const char* run_grid(int64_t blocks, int threads, void (*f)(void*), void* what) {
    const size_t stack = 64 << 10;
    char* stacks = (char*)malloc(stack * threads);
    body = f, body_of = what, threads_now = threads;
    const char* fault = nullptr;
    for (int64_t b = 0; b < blocks && !fault; b++) {
        blockIdx.x = (unsigned)b;
        memset(m_shared, 0xff, sizeof m_shared);
        memset(&of_block, 0, sizeof of_block), memset(of_lanes, 0, sizeof of_lanes), memset(done, 0, sizeof done);
        for (int t = 0; t < threads; t++) {
            getcontext(&fiber[t]);
            fiber[t].uc_stack.ss_sp = stacks + stack * t;
            fiber[t].uc_stack.ss_size = stack;
            fiber[t].uc_link = nullptr;
            makecontext(&fiber[t], one_thread, 0);
        }
        int left = threads;
        for (int rounds = 0; left > 0; rounds++) {
            if (rounds > 100000) { fault = "threads wait for each other"; break; }
            left = 0;
            for (int t = 0; t < threads; t++) {
                if (done[t]) continue;
                threadIdx.x = (unsigned)t;
                swapcontext(&scheduler, &fiber[t]);
                left += !done[t];
            }
        }
    }
    free(stacks);
    return fault;
}
