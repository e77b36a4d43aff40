// Calls and launches: blocks are spread over OS threads, the threads of a block are fibers of one of them.
#include "machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t one_call = PTHREAD_MUTEX_INITIALIZER;
static volatile bool stopping;
static const size_t AROUND = 64 << 10;  // readable bytes before and after shared memory: a small overrun must not crash

// ---------------------------------------------------------------- going from thread to thread

void make_ready(Block* b, Thread* t) {
    t->state = EM_READY;
    b->head = (b->head - 1) & (b->ring - 1);
    b->ready[b->head] = t;
    b->queued++;
}

static Thread* next_ready(Block* b) {
    if (b->queued == 0) return nullptr;
    Thread* t = b->ready[b->head];
    b->head = (b->head + 1) & (b->ring - 1);
    b->queued--;
    return t;
}

// Runs the thread that owns the stack, then others that have not begun, until one must be gone on with.
static void fiber_main() {
    Thread* t = current();
    Block* b = block_of(t);
    const int stack = t->stack;
    for (;;) {
        b->launch->body(b->launch->arguments);
        t->state = EM_ENDED;
        b->ended++;
        Thread* next = next_ready(b);
        void* nowhere;
        if (next && next->stack < 0) {
            t = next;
            t->stack = stack;
            b->stacks.own(stack, t);
            continue;
        }
        b->free_stacks[b->free_count++] = stack;
        em_switch(&nowhere, next ? next->context : b->home);
    }
}

static void* context_of(Block* b, Thread* t) {
    if (t->stack >= 0) return t->context;
    t->stack = b->free_stacks[--b->free_count];
    return b->stacks.begin(t->stack, t, fiber_main);
}

void wait_here(Thread* t, int state, const void* site) {
    Block* b = block_of(t);
    t->state = state;
    t->site = site;
    Thread* next = next_ready(b);
    em_switch(&t->context, next ? context_of(b, next) : b->home);
}

extern "C" void em_stop() {
    Thread* t = current();
    Block* b = block_of(t);
    b->stopped = true;
    stopping = true;
    void* nowhere;
    em_switch(&nowhere, b->home);
    __builtin_unreachable();
}

extern "C" unsigned em_block_index() { return (unsigned)current()->block->number; }
extern "C" unsigned em_thread_index() { return (unsigned)current()->linear; }
extern "C" int em_lane() { return current()->lane; }
extern "C" unsigned char (*em_arena())[] { return (unsigned char (*)[])current()->block->arena; }

// ---------------------------------------------------------------- a block

static void poison_arena(Block* b) {
    const EmLaunch* x = b->launch;
    memset(b->arena_memory, 0xff, (size_t)x->shared_bytes + 2 * AROUND);
    for (int i = 0; i < x->shared_count; i++) {
        memset(b->arena + x->shared[i].offset, x->shared[i].poison, (size_t)x->shared[i].bytes);
    }
}

static void begin_block(Block* b, int64_t number) {
    const int n = b->launch->threads, lanes = b->launch->lanes;
    b->number = number;
    b->epoch = 0;
    memset(b->observer, 0, sizeof b->observer);
    b->head = b->queued = b->ended = b->at_barrier = 0;
    b->stopped = false;
    b->free_count = n;
    memset(b->meeting_counts, 0, (size_t)n * sizeof(int));
    memset(b->all, 0, (size_t)n * sizeof(Thread));
    for (int i = n - 1; i >= 0; i--) {
        Thread* t = &b->all[i];
        b->free_stacks[n - 1 - i] = i;
        t->block = b;
        t->linear = i;
        t->lane = i % lanes;
        t->stack = -1;
        make_ready(b, t);
    }
    poison_arena(b);
}

static int write_ranges(char* out, int room, const Block* b, int state, const void* site) {
    const int n = b->launch->threads;
    int used = 0;
    for (int i = 0; i < n; i++) {
        if (b->all[i].state != state || (state != EM_ENDED && b->all[i].site != site)) continue;
        int j = i;
        while (j + 1 < n && b->all[j + 1].state == state && (state == EM_ENDED || b->all[j + 1].site == site)) j++;
        if (used > room - 40) return used + snprintf(out + used, (size_t)(room - used), ", ...");
        used += snprintf(out + used, (size_t)(room - used), i == j ? "%s%d" : "%s%d-%d", used ? ", " : "", i, j);
        i = j;
    }
    return used;
}

// Nobody can go on, and not all have ended: who waits where.
static void report_deadlock(Block* b) {
    Thread *first = nullptr, *other = nullptr;
    for (int i = 0; i < b->launch->threads; i++) {
        Thread* t = &b->all[i];
        if (t->state == EM_ENDED) continue;
        if (!first) first = t;
        else if (!other && (t->site != first->site || t->state != first->state)) other = t;
    }
    char waiting[80], others[80];
    write_ranges(waiting, sizeof waiting, b, first->state, first->site);
    const char* where = first->state == EM_AT_BARRIER ? "at a barrier of the block" : "for others of their unit";
    if (other) {
        write_ranges(others, sizeof others, b, other->state, other->site);
        const char* there = other->state == EM_AT_BARRIER ? "at a barrier of the block" : "for others of their unit";
        report("deadlock", first, other, first->site, other->site, "threads %s wait %s, threads %s wait %s", waiting, where, others, there);
    } else {
        others[0] = 0;
        Thread* ended = nullptr;
        for (int i = 0; i < b->launch->threads && !ended; i++) {
            if (b->all[i].state == EM_ENDED) ended = &b->all[i];
        }
        write_ranges(others, sizeof others, b, EM_ENDED, nullptr);
        report("deadlock", first, ended, first->site, nullptr, "threads %s wait %s, threads %s have ended", waiting, where, others);
    }
}

static void run_block(Block* b, int64_t number) {
    begin_block(b, number);
    ob_block_begin(b);
    Thread* first = next_ready(b);
    if (first) em_switch(&b->home, context_of(b, first));
    if (!b->stopped && b->ended < b->launch->threads) {
        report_deadlock(b);
        stopping = true;
    }
    ob_block_end(b);
    for (int i = 0; i < b->launch->threads; i++) forget_copies(&b->all[i]);
}

// ---------------------------------------------------------------- a worker

struct Worker {
    const EmLaunch* launch;
    int64_t* next;
    int number;
    int status;
    pthread_t thread;
};

static bool make_block(Block* b, const EmLaunch* x, int worker) {
    const size_t n = (size_t)x->threads;
    memset((void*)b, 0, sizeof *b);
    b->launch = x;
    b->worker = worker;
    for (b->ring = 1; b->ring < x->threads; b->ring *= 2) {
    }
    b->all = (Thread*)malloc(n * sizeof(Thread));
    b->numbered = (EmThread**)malloc(n * sizeof(EmThread*));
    b->meetings = (Meeting*)malloc(n * sizeof(Meeting));
    b->meeting_counts = (int*)malloc(n * sizeof(int));
    b->deposits = (void**)malloc(n * sizeof(void*));
    b->ready = (Thread**)malloc((size_t)b->ring * sizeof(Thread*));
    b->free_stacks = (int*)malloc(n * sizeof(int));
    b->arena_memory = (char*)malloc((size_t)x->shared_bytes + 2 * AROUND + 128);
    if (!b->all || !b->numbered || !b->meetings || !b->meeting_counts || !b->deposits || !b->ready || !b->free_stacks) return false;
    if (!b->arena_memory) return false;
    b->arena = (unsigned char*)(((uintptr_t)b->arena_memory + AROUND + 127) & ~(uintptr_t)127);
    b->threads = b->numbered;
    for (size_t i = 0; i < n; i++) b->numbered[i] = &b->all[i];
    return b->stacks.reserve(x->threads);
}

static void drop_block(Block* b) {
    b->stacks.release();
    free(b->all);
    free(b->numbered);
    free(b->meetings);
    free(b->meeting_counts);
    free(b->deposits);
    free(b->ready);
    free(b->free_stacks);
    free(b->arena_memory);
}

static void* work(void* p) {
    Worker* w = (Worker*)p;
    Block block;
    if (make_block(&block, w->launch, w->number)) {
        while (!stopping) {
            const int64_t number = __atomic_fetch_add(w->next, 1, __ATOMIC_RELAXED);
            if (number >= w->launch->blocks) break;
            run_block(&block, number);
        }
    } else {
        w->status = 1;
        stopping = true;
    }
    drop_block(&block);
    return nullptr;
}

static const int MOST_WORKERS = 64;

extern "C" int em_launch(const EmLaunch* x) {
    if (x->blocks <= 0 || x->threads <= 0) return 0;
    int count = x->workers < MOST_WORKERS ? x->workers : MOST_WORKERS;
    if (count > x->blocks) count = (int)x->blocks;
    if (count < 1) count = 1;
    Worker workers[MOST_WORKERS];
    int64_t next = 0;
    stopping = false;
    ob_launch_begin(x);
    int begun = 0;
    for (int i = 0; i < count; i++) workers[i] = {x, &next, i, 0, {}};
    while (begun + 1 < count && pthread_create(&workers[begun + 1].thread, nullptr, work, &workers[begun + 1]) == 0) begun++;
    work(&workers[0]);
    int status = workers[0].status;
    for (int i = 1; i <= begun; i++) {
        pthread_join(workers[i].thread, nullptr);
        if (workers[i].status) status = workers[i].status;
    }
    ob_launch_end(x);
    return status ? status : stopping ? 3 : 0;
}

// ---------------------------------------------------------------- a call

extern "C" int em_call_begin(const EmCall* call) {
    pthread_mutex_lock(&one_call);
    em_fault_clear();
    for (int i = 0; i < call->global_count; i++) {
        const EmGlobal* g = &call->globals[i];
        if (!g->initialised) memset(g->base, g->poison, (size_t)g->bytes);
    }
    ob_call_begin(call);
    return 0;
}

extern "C" int em_call_end(const EmCall* call, int status) {
    ob_call_end(call);
    if (status == 0 && em_fault_count() > 0) status = 3;
    pthread_mutex_unlock(&one_call);
    return status;
}

extern "C" void* em_workspace(int64_t bytes) { return malloc(bytes > 0 ? (size_t)bytes : 1); }
extern "C" void em_workspace_free(void* p) { free(p); }
