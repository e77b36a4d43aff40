// expsum: a kernel for cpu:test, made by Andiron.
// Build: c++ -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv -Wno-psabi -pthread -march=native -shared -fPIC
// g++ needs one flag more: -fno-tree-loop-if-convert
//
// schedule by_rows for expsum on cpu:avx2:
//     tile i: 1 -> core
//     tile j: 8
//     tile j: 1 -> lane
#include <stdint.h>
#include <stdlib.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wuninitialized"  // registers are set where the schedule says, not where they are declared
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"  // and some of them lie outside of what is read, at an edge
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wsometimes-uninitialized"
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define m_inline static inline __attribute__((always_inline, unused))

typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x8_u __attribute__((vector_size(32), aligned(4), may_alias));

m_inline f32x8 load_f32x8(const float* p) { return *(const f32x8_u*)p; }

m_inline f32x8 splat_f32x8(float x) { return (f32x8){x, x, x, x, x, x, x, x}; }

typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8_u __attribute__((vector_size(32), aligned(4), may_alias));

typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8_u __attribute__((vector_size(32), aligned(4), may_alias));

m_inline f32x8 m_at_most(f32x8 x, f32x8 most) {
#if defined(__AVX__) && !defined(__clang__)
    return __builtin_ia32_minps256(most, x);
#else
    return x > most ? most : x;
#endif
}

m_inline f32x8 m_at_least(f32x8 x, f32x8 least) {
#if defined(__AVX__) && !defined(__clang__)
    return __builtin_ia32_maxps256(least, x);
#else
    return x < least ? least : x;
#endif
}

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__riscv_d) || defined(__powerpc64__)
m_inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
m_inline float fma(float a, float b, float c) { return a * b + c; }
#endif

m_inline f32x8 fma(f32x8 a, f32x8 b, f32x8 c) {
#if !(defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__riscv_d) || defined(__powerpc64__))
    return a * b + c;
#elif defined(__clang__)
    return __builtin_elementwise_fma(a, b, c);
#elif defined(__FMA__)
    return (f32x8)__builtin_ia32_vfmaddps256(a, b, c);
#else
    f32x8 r;
    for (int l = 0; l < 8; l++) r[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return r;
#endif
}

m_inline f32x8 flt(i32x8 x) { return (f32x8)x; }

m_inline i32x8 bits(f32x8 x) { return (i32x8)x; }

m_inline f32x8 m_exp(f32x8 x) {
    x = m_at_most(x, splat_f32x8(89.0f));
    x = m_at_least(x, splat_f32x8(-104.0f));
    // x = n ln 2 + r, n even; the number added makes n / 2 + 127 the low bits
    const f32x8 t = fma(x, splat_f32x8(1.44269504f), splat_f32x8(25166078.0f));
    const f32x8 n = t - 25166078.0f;
    f32x8 r = fma(n, splat_f32x8(-0.693359375f), x);
    r = fma(n, splat_f32x8(2.12194440e-4f), r);
    f32x8 p = fma(r, splat_f32x8(1.9630729e-4f), splat_f32x8(1.4104748e-3f));
    p = fma(p, r, splat_f32x8(8.335929e-3f));
    p = fma(p, r, splat_f32x8(4.166123e-2f));
    p = fma(p, r, splat_f32x8(1.6666618e-1f));
    p = fma(p, r, splat_f32x8(5.0000036e-1f));
    p = fma(p, r, splat_f32x8(1.0f));
    const f32x8 root = flt((i32x8)((u32x8)bits(t) << 23));
    return fma(p, r * root, root) * root;
}

// the first `lanes` elements (none, if it is negative; at most 8), then zeros
#if defined(__AVX__)
m_inline f32x8 load_part_f32x8(const float* p, int64_t lanes) {
    typedef float V __attribute__((vector_size(32)));
    typedef int M __attribute__((vector_size(32)));
    const int n = lanes < 0 ? 0 : lanes > 8 ? 8 : (int)lanes;
    return (f32x8)__builtin_ia32_maskloadps256((const V*)p, (M)((M){0, 1, 2, 3, 4, 5, 6, 7} < n));
}
#else
static __attribute__((noinline, unused)) f32x8 load_rest_f32x8(const float* p, int64_t lanes) {
    f32x8 x = {};
    if (lanes > 0) __builtin_memcpy(&x, p, (size_t)lanes * sizeof *p);
    return x;
}
m_inline f32x8 load_part_f32x8(const float* p, int64_t lanes) {
    return lanes >= 8 ? *(const f32x8_u*)p : load_rest_f32x8(p, lanes);
}
#endif

m_inline i32x8 splat_i32x8(int32_t x) { return (i32x8){x, x, x, x, x, x, x, x}; }

m_inline i32x8 first_lanes_i32x8(int64_t lanes) {
    lanes = lanes < 0 ? 0 : lanes > 8 ? 8 : lanes;
    return (i32x8){0, 1, 2, 3, 4, 5, 6, 7} < splat_i32x8((int32_t)lanes);
}

// What one call works on.
struct Args {
    const float* X;
    float* Y;
    int64_t M, N, cores_;
};

// Threads that wait for work: they spin shortly, then sleep. Made at the first call that wants them, kept for good.
//
// A job is `members * shares` parts, each done once. A member begins with those of its own number; where members need not meet
// it goes on with what others have not begun, so that nobody waits for a thread that is still asleep. A part is taken by
// counting down the word `open` of its member, which has the job's number in it: who wakes too late finds another number, or
// nothing left, and sleeps again. The rest of a job is read only by who has taken a part: it stays until that part is done.
//
// Where members meet in a job, each has one part, its own. Those that have not taken theirs when the caller has waited a little
// lose it: the job is done by those who came.
//
// The text of a kernel has all of this. Who builds many kernels builds it once and links it: m_team_is_linked.
struct Args;
typedef void (*Job)(const Args*, int, int);

enum { SHARES = 4 };         // of each member, where anybody may do them
enum { PATIENCE = 100000 };  // ns, at most, in which members come; to wake a thread takes about half of it

#if defined(m_team_is_linked)
#define m_team __attribute__((visibility("hidden")))
#else
#define m_team static __attribute__((unused))
#endif
m_team bool team_take(int* threads);
m_team void team_leave();
m_team void team_run(Job job, const Args* call, int members, int shares);
m_team void team_meet(Job job, const Args* call, int members, int64_t* count, int64_t patience);
m_team void m_barrier(int64_t cores);

#if !defined(m_team_is_linked) || defined(m_team_is_built)
enum { MEMBERS = 256 };
enum { MEETS = 1, ONE_MEMBER = 2, ONE_JOB = 1024, ONE_OPEN = 256 };  // units within words

struct TeamWord { __attribute__((aligned(64))) int64_t value; };
struct TeamBed { pthread_cond_t wake = PTHREAD_COND_INITIALIZER; int sleeping; };  // who sleeps for the same reason

static struct Team {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    TeamBed idle, inside;  // between jobs, and in one
    Job job;
    const Args* call;
    int shares;
    int size;            // threads there are, without the caller
    int owner;           // the process that made them; a fork has none
    int taken;           // a call has the team
    int64_t jobs;        // how many there were
    TeamWord turn;       // number of the job, how many members, whether they meet in it
    TeamWord done;       // parts of the job
    TeamWord begun;      // number of the last job whose members know how many they are
    TeamWord arrived;    // at the barrier
    TeamWord phase;      // counts barriers
    TeamWord open[MEMBERS];  // number of the job, shares of this member that nobody has begun
    pthread_t thread[MEMBERS];
    int place[MEMBERS];  // of this member among those who came
} team;

static inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline int team_members(int64_t turn) { return (int)(turn % ONE_JOB / ONE_MEMBER); }

// Where each member runs. A scheduler may wake a thread on the very core of its waker and leave both there for milliseconds
// while another core idles: who finds itself on the core of another member moves to one that none of them has.
static __thread int team_member;
#if defined(__linux__)
static int team_cpu[MEMBERS];  // the core's number and 1; 0: asleep

static int team_barred[MEMBERS];  // from which core, the same way

static void team_sleeps() { __atomic_store_n(&team_cpu[team_member], 0, __ATOMIC_RELAXED); }

// Before the caller wakes members that sleep: they are not to wake on its core, as it does not pause to let them run.
static void team_make_room() {
    cpu_set_t others;
    const int mine = sched_getcpu();
    if (team_member != 0 || mine < 0) return;
    for (int i = 1; i <= team.size; i++) {
        if (__atomic_load_n(&team_cpu[i], __ATOMIC_RELAXED) != 0) continue;
        if (pthread_getaffinity_np(team.thread[i], sizeof others, &others) != 0 || !CPU_ISSET(mine, &others)) continue;
        CPU_CLR(mine, &others);
        if (CPU_COUNT(&others) == 0) continue;
        __atomic_store_n(&team_barred[i], mine + 1, __ATOMIC_RELAXED);
        pthread_setaffinity_np(team.thread[i], sizeof others, &others);
    }
}

// A member that runs may go to that core again.
static void team_wakes() {
    cpu_set_t allowed;
    if (__atomic_load_n(&team_barred[team_member], __ATOMIC_RELAXED) == 0) return;
    const int barred = __atomic_exchange_n(&team_barred[team_member], 0, __ATOMIC_RELAXED) - 1;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    CPU_SET(barred, &allowed);
    sched_setaffinity(0, sizeof allowed, &allowed);
}

static void team_forget() {
    for (int i = 0; i < MEMBERS; i++) team_cpu[i] = team_barred[i] = 0;
}

static void team_spread(int members) {
    cpu_set_t allowed, open;
    const int mine = sched_getcpu() + 1;
    bool shared = false;
    for (int i = 0; i < members; i++) shared |= i != team_member && __atomic_load_n(&team_cpu[i], __ATOMIC_RELAXED) == mine;
    __atomic_store_n(&team_cpu[team_member], mine, __ATOMIC_RELAXED);
    if (!shared || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    open = allowed;
    for (int i = 0; i < members; i++) {
        const int taken = __atomic_load_n(&team_cpu[i], __ATOMIC_RELAXED) - 1;
        if (taken >= 0 && taken < CPU_SETSIZE) CPU_CLR(taken, &open);
    }
    if (CPU_COUNT(&open) == 0 || sched_setaffinity(0, sizeof open, &open) != 0) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
    __atomic_store_n(&team_cpu[team_member], sched_getcpu() + 1, __ATOMIC_RELAXED);
}
#else
static void team_sleeps() {}
static void team_make_room() {}
static void team_wakes() {}
static void team_forget() {}
static void team_spread(int) {}
#endif

// Until a word has changed; its new value. Spinning, then asleep. Inside a job it spins long, for to wake a thread can cost a
// millisecond on a virtual machine; now and then it yields, for on a busy machine the one waited for may need this very core.
enum { BETWEEN_JOBS = 8, WITHIN_A_JOB = 64 };  // rounds of spinning, of 20 to 150 us each

static int64_t team_wait(const TeamWord* word, int64_t value, int rounds, TeamBed* bed) {
    int64_t now;
    for (int round = 0; round < rounds; round++) {
        for (int spins = 0; spins < 2000; spins++) {
            if ((now = __atomic_load_n(&word->value, __ATOMIC_ACQUIRE)) != value) return now;
            relax();
        }
        sched_yield();
    }
    team_sleeps();
    pthread_mutex_lock(&team.lock);
    __atomic_add_fetch(&bed->sleeping, 1, __ATOMIC_SEQ_CST);
    while ((now = __atomic_load_n(&word->value, __ATOMIC_SEQ_CST)) == value) pthread_cond_wait(&bed->wake, &team.lock);
    __atomic_sub_fetch(&bed->sleeping, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&team.lock);
    team_wakes();
    team_spread(team_members(__atomic_load_n(&team.turn.value, __ATOMIC_RELAXED)));
    return now;
}

// Adds to such a word, and wakes who sleeps. The lock is not held while they wake, as they need it: that it was free says that
// who has not seen the new value lies in bed.
static void team_tell(TeamWord* word, int64_t more, TeamBed* bed) {
    __atomic_add_fetch(&word->value, more, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&bed->sleeping, __ATOMIC_SEQ_CST) == 0) return;
    pthread_mutex_lock(&team.lock);
    pthread_mutex_unlock(&team.lock);
    team_make_room();
    pthread_cond_broadcast(&bed->wake);
}

// Takes a part of this job from what a member has open: how many there were, or 0.
static int team_take_part(TeamWord* open, int64_t job) {
    int64_t seen = __atomic_load_n(&open->value, __ATOMIC_ACQUIRE);
    while (seen / ONE_OPEN == job && seen % ONE_OPEN != 0) {
        if (__atomic_compare_exchange_n(&open->value, &seen, seen - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return (int)(seen % ONE_OPEN);
    }
    return 0;
}

static void team_do(int64_t turn, int member) {
    const int members = team_members(turn);
    const int64_t number = turn / ONE_JOB;
    int64_t done = 0;
    if (member >= members) return;
    if (turn % ONE_MEMBER == MEETS) {
        if (team_take_part(&team.open[member], number) == 0) return;
        for (int64_t last; (last = __atomic_load_n(&team.begun.value, __ATOMIC_ACQUIRE)) != number;)
            team_wait(&team.begun, last, WITHIN_A_JOB, &team.inside);
        team.job(team.call, team.place[member], team.place[member]);
        done = 1;
    } else {
        for (int i = 0; i < members; i++) {
            const int whose = (member + i) % members;
            for (int open; (open = team_take_part(&team.open[whose], number)) != 0; done++)
                team.job(team.call, (team.shares - open) * members + whose, member);
        }
    }
    if (done != 0) team_tell(&team.done, done, &team.inside);
}

static void* team_work(void* member) {
    team_member = (int)(intptr_t)member;
    for (int64_t turn = 0;;) {
        turn = team_wait(&team.turn, turn, BETWEEN_JOBS, &team.idle);
        team_wakes();  // it may have been woken as it was about to sleep
        team_do(turn, (int)(intptr_t)member);
    }
    return NULL;
}

// The team for this call, with `*threads` lowered to how many there are; false when another call has it.
m_team bool team_take(int* threads) {
    const int process = (int)getpid();
    int owner = __atomic_load_n(&team.owner, __ATOMIC_ACQUIRE);
    if (owner != process) {
        if (owner == -1 || !__atomic_compare_exchange_n(&team.owner, &owner, -1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return false;
        pthread_mutex_init(&team.lock, NULL);
        pthread_cond_init(&team.idle.wake, NULL);
        pthread_cond_init(&team.inside.wake, NULL);
        team_forget();
        team.size = team.taken = team.idle.sleeping = team.inside.sleeping = 0;
        team.arrived.value = team.turn.value = 0;
        team.jobs++;  // nobody takes part in the one that the fork fell into
        __atomic_store_n(&team.owner, process, __ATOMIC_RELEASE);
    }
    if (__atomic_exchange_n(&team.taken, 1, __ATOMIC_ACQUIRE)) return false;
    if (team.size + 1 < *threads) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the caller's
        while (team.size + 1 < *threads) {
            pthread_t* thread = &team.thread[team.size + 1];
            if (pthread_create(thread, NULL, team_work, (void*)(intptr_t)(team.size + 1)) != 0) break;
            pthread_detach(*thread);
            team.size++;
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (team.size + 1 < *threads) *threads = team.size + 1;
    }
    return true;
}

m_team void team_leave() {
    __atomic_store_n(&team.taken, 0, __ATOMIC_RELEASE);
}

static int64_t team_begin(Job job, const Args* call, int members, int shares, int meets) {
    team.job = job;
    team.call = call;
    team.shares = shares;
    team.jobs++;
    __atomic_store_n(&team.done.value, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < members; i++)
        __atomic_store_n(&team.open[i].value, team.jobs * ONE_OPEN + shares, __ATOMIC_RELEASE);
    team_spread(members);
    const int64_t turn = team.jobs * ONE_JOB + members * ONE_MEMBER + meets;
    team_tell(&team.turn, turn - __atomic_load_n(&team.turn.value, __ATOMIC_RELAXED), &team.idle);
    return turn;
}

static void team_end(int64_t parts) {
    for (int64_t done; (done = __atomic_load_n(&team.done.value, __ATOMIC_ACQUIRE)) != parts;)
        team_wait(&team.done, done, WITHIN_A_JOB, &team.inside);
}

// A job whose members need not meet, of so many shares each.
m_team void team_run(Job job, const Args* call, int members, int shares) {
    if (members == 1) return job(call, 0, 0);
    team_do(team_begin(job, call, members, shares, 0), 0);
    team_end(members * shares);
}

static int64_t team_clock() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

// A job in which members meet. `*count` tells it how many they are, and is lowered to those who come in time; NULL: all must.
// In time: within `patience` ns, of which a caller gives a fourth of what the job takes beyond what is too small for threads.
m_team void team_meet(Job job, const Args* call, int members, int64_t* count, int64_t patience) {
    if (members == 1) return job(call, 0, 0);
    team_begin(job, call, members, 1, MEETS);
    const int64_t until = count == NULL ? 0 : team_clock() + (patience < PATIENCE ? patience : PATIENCE);
    int came = 1;
    for (int i = 1; i < members; i++) {
        int64_t* open = &team.open[i].value;
        while (count != NULL && __atomic_load_n(open, __ATOMIC_RELAXED) % ONE_OPEN != 0 && team_clock() < until) relax();
        if (count == NULL || team_take_part(&team.open[i], team.jobs) == 0) team.place[i] = came++;
    }
    if (count != NULL) *count = came;
    team_tell(&team.begun, team.jobs - __atomic_load_n(&team.begun.value, __ATOMIC_RELAXED), &team.inside);
    job(call, 0, 0);
    team_end(came - 1);
}

m_team void m_barrier(int64_t cores) {
    if (cores == 1) return;
    const int64_t phase = __atomic_load_n(&team.phase.value, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&team.arrived.value, 1, __ATOMIC_ACQ_REL) == cores) {
        __atomic_store_n(&team.arrived.value, 0, __ATOMIC_RELAXED);
        team_tell(&team.phase, 1, &team.inside);
    } else {
        team_wait(&team.phase, phase, WITHIN_A_JOB, &team.inside);
    }
}
#endif
#undef m_team

static void launch__main_(const Args* args, int core, int) {
    const float* X = args->X;
    float* Y = args->Y;
    const int64_t cores_ = args->cores_;
    const int64_t M = args->M;
    const int64_t N = args->N;
    // tile i: 1 -> core
    for (int64_t i = core; i < M; i += cores_) {
        const float* X_i = X + N * i;
        f32x8 total = (f32x8){};
        // tile j: 8
        for (int64_t j = 0; j < N; j += 8) {
            f32x8 t1;
            if (j + 8 <= N) {
                t1 = m_exp(load_f32x8(X_i + j));
            } else {
                t1 = first_lanes_i32x8(N - j) ? m_exp(load_part_f32x8(X_i + j, N - j)) : (f32x8){};
            }
            total = total + t1;
        }
        total = total + __builtin_shufflevector(total, total, 1, 0, 3, 2, 5, 4, 7, 6);
        total = total + __builtin_shufflevector(total, total, 2, 3, 0, 1, 6, 7, 4, 5);
        total = total + __builtin_shufflevector(total, total, 4, 5, 6, 7, 0, 1, 2, 3);
        Y[i] = total[0];
    }
}

extern "C" __attribute__((visibility("default"))) int andiron_expsum(void* const* args, const int64_t* dims, int threads) {
    Args call;
    call.X = (const float*)args[0];
    call.Y = (float*)args[1];
    call.M = dims[0];
    call.N = dims[1];
    if (threads > 256) threads = 256;
    const bool together = threads > 1 && team_take(&threads);
    if (!together) threads = 1;
    call.cores_ = threads;
    call.cores_ = threads == 1 ? 1 : threads * SHARES;
    team_run(launch__main_, &call, threads, SHARES);
    if (together) team_leave();
    return 0;
}
