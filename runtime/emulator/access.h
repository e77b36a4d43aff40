// What an access means: which buffer it reaches, whether it may, what it conflicts with. Buffers are told from addresses; stacks
// and constants of the kernel's own code are nobody's.
//
// No C++ library is used: some compilers take a minute to build theirs.
#pragma once
#include <stdio.h>
#include "count.h"

#define GROUPS_MOST 32  // of shared buffers
#define WORKERS_MOST 256
#define CHAINS 512

static const int64_t CELLS_MOST = 1 << 23;  // of one buffer: in larger ones only bounds and alignment are observed

// An asynchronous copy that was issued and not awaited.
struct Copy {
    uint64_t token;
    unsigned char* to;
    const unsigned char* from;
    const void* site;
    uint32_t stamp;
    int32_t bytes;
    int32_t next;  // in its chain, or of the free ones; plus one
};

// Faults of one kind and place after the first.
struct Again {
    const char* kind;
    const char* buffer;
    const void* site;
    uint64_t count;
};

// One OS thread of a launch. The threads of its block find it in their `observer[0]`.
struct Worker {
    EmBlock* block;
    unsigned char* arena;
    int64_t shared_bytes;
    Clock clock;
    Cell* cells;
    int64_t cell_room;
    Copy* copies;
    int32_t chains[CHAINS];  // of copies by token; plus one
    int32_t copy_free;       // plus one
    int32_t copy_used, copy_room;
    int32_t last;  // the global buffer met last
    Counters counters;
    int64_t barriers;
    Again again[64];
};

struct Global {
    unsigned char* base;
    int64_t bytes;
    GlobalCell* cells;  // nullptr: read only and initialised, or too large
    const EmGlobal* of;
    int log;  // of the bytes of a cell
};

static struct {
    Global* globals;  // of a call
    int global_count;
    const EmLaunch* launch;
    uint32_t number;  // of the launch, from 1 on
    unsigned char* text;
    uintptr_t image[2];  // of the library that the kernel is in
    uint8_t* owner;      // of each cell of shared memory: the group of its buffers plus one, 0: none
    int64_t owner_room;
    int shared_log;     // of the bytes of a cell
    uint64_t* reached;  // by site: a bit for each group that was read there, then for each that was written
    int64_t reached_room;
    ObMachine machine;
} run;

static struct {
    ObSite* sites;
    ObLaunch* launches;
    ObInstr* instrs;
    ObReach* reaches;
    int site_count, launch_count, instr_count, reach_count;
    int site_room, launch_room, instr_room, reach_room;
    int several;
    volatile char lock;
} found;

static inline void lock(volatile char* x) {
    while (__atomic_test_and_set(x, __ATOMIC_ACQUIRE)) {
    }
}
static inline void unlock(volatile char* x) { __atomic_clear(x, __ATOMIC_RELEASE); }

template <class T>
static T* push(T** list, int* count, int* room) {
    if (*count == *room) {
        *room = *room ? 2 * *room : 64;
        *list = (T*)realloc(*list, *room * sizeof(T));
    }
    return &(*list)[(*count)++];
}

struct Access {
    Worker* w;
    EmThread* thread;
    const unsigned char* p;
    const void* site;
    int64_t bytes;
    int kind;   // EmAccess
    int flags;  // of records
};

static inline uint32_t offset_of(const void* site) {
    const uintptr_t d = (uintptr_t)site - (uintptr_t)run.text;
    return d < (uintptr_t)SITE_MOST ? (uint32_t)d : (uint32_t)SITE_MOST;
}

// ---------------------------------------------------------------- shared buffers

// The buffer at a byte of shared memory, or the last one before it; of several the one that begins last.
static const EmShared* shared_at(int64_t offset) {
    const EmShared *in = nullptr, *before = nullptr;
    for (int i = 0; i < run.launch->shared_count; i++) {
        const EmShared* s = &run.launch->shared[i];
        if (offset < s->offset) continue;
        if (offset < s->offset + s->bytes && (!in || s->offset > in->offset)) in = s;
        if (!before || s->offset + s->bytes > before->offset + before->bytes) before = s;
    }
    return in ? in : before;
}

// Cells as wide as the narrowest element; each knows its group of overlapping buffers.
static void lay_out_shared(const EmLaunch* l) {
    int element = 16;
    for (int i = 0; i < l->shared_count; i++)
        if (l->shared[i].element < element) element = l->shared[i].element;
    run.shared_log = element >= 16 ? 4 : element >= 8 ? 3 : element >= 4 ? 2 : element >= 2 ? 1 : 0;
    if (!l->shared_count) run.shared_log = 2;
    const int64_t cells = (l->shared_bytes >> run.shared_log) + 1;
    if (cells > run.owner_room) {
        run.owner = (uint8_t*)realloc(run.owner, cells);
        run.owner_room = cells;
    }
    memset(run.owner, l->shared_count ? 0 : 1, cells);  // with no buffers known, all of it is one
    int group[256], count = 0;
    for (int i = 0; i < l->shared_count && i < 256; i++) {
        group[i] = i;
        for (int j = 0; j < i; j++) {
            const EmShared *a = &l->shared[i], *b = &l->shared[j];
            if (a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes) continue;
            const int from = group[i], to = group[j];
            for (int k = 0; k <= i; k++)
                if (group[k] == from) group[k] = to;
        }
    }
    int number[256];
    for (int i = 0; i < l->shared_count && i < 256; i++) {
        const EmShared* s = &l->shared[i];
        number[i] = group[i] == i ? (count < GROUPS_MOST ? ++count : GROUPS_MOST) : number[group[i]];
        if (s->offset < 0 || s->bytes <= 0 || s->offset + s->bytes > l->shared_bytes) continue;
        const int64_t first = s->offset >> run.shared_log, last = (s->offset + s->bytes - 1) >> run.shared_log;
        memset(run.owner + first, number[i], last - first + 1);
    }
}

// ---------------------------------------------------------------- faults

// Passes a fault on; if this worker passed one on of that kind and place, it is only counted until the block ends.
static __attribute__((noinline, cold)) void fault(const Access* a, const char* kind, const char* buffer, int64_t offset,
                                                  const Conflict* with) {
    Again* again = nullptr;
    for (Again& x : a->w->again) {
        if (x.kind == kind && x.site == a->site && x.buffer == buffer) {
            x.count++;
            return;
        }
        if (!x.kind && !again) again = &x;
    }
    EmFault f;
    memset(&f, 0, sizeof f);
    f.kind = kind, f.buffer = buffer, f.offset = offset, f.site = a->site, f.count = 1;
    f.block = f.other_block = a->w->block->number;
    f.thread = a->thread->linear, f.other_thread = -1;
    f.bytes = (int32_t)a->bytes, f.access = a->kind;
    if (with && with->access > 0) {
        const uint32_t site = site_of(with->with);
        f.other_block = with->block, f.other_thread = thread_of(with->with), f.other_access = with->access;
        f.other_site = site == SITE_MOST ? nullptr : run.text + site;
    }
    snprintf(f.message, sizeof f.message, "%s: %d bytes at byte %lld of %s", kind, f.bytes, (long long)offset,
             buffer ? buffer : "no buffer");
    em_fault(&f);
    if (again) *again = Again{kind, buffer, a->site, 0};
}

static void faults_again(Worker* w) {
    for (Again& x : w->again) {
        if (x.kind && x.count) {
            EmFault f;
            memset(&f, 0, sizeof f);
            f.kind = x.kind, f.buffer = x.buffer, f.site = x.site, f.count = x.count, f.thread = f.other_thread = -1;
            em_fault(&f);
        }
        x = Again{nullptr, nullptr, nullptr, 0};
    }
}

static __attribute__((noinline, cold)) void conflict(const Access* a, const char* buffer, int64_t offset, const Conflict* c) {
    const char* kind = c->access < 0 ? "uninitialised" : c->access == EM_UNDER_WAY ? "in-flight" : "race";
    fault(a, kind, buffer, offset, c);
}

static inline uint64_t distance(int64_t at, int64_t bytes) { return at < 0 ? (uint64_t)-at : (uint64_t)(at - bytes); }

// An address that is in no buffer: the nearest one is named. The access itself may crash, so the thread is stopped.
static __attribute__((noinline, cold)) void outside(const Access* a) {
    const char* name = nullptr;
    int64_t offset = 0;
    uint64_t nearest = 1 << 30;
    for (int i = 0; i < run.global_count; i++) {
        const Global* g = &run.globals[i];
        const int64_t at = a->p - g->base;
        if (distance(at, g->bytes) < nearest) nearest = distance(at, g->bytes), name = g->of->name, offset = at;
    }
    const int64_t at = a->p - a->w->arena;
    if (a->w->shared_bytes && distance(at, a->w->shared_bytes) < nearest) {
        const EmShared* s = shared_at(at < 0 ? 0 : at);
        name = s ? s->name : nullptr;
        offset = at - (s ? s->offset : 0);
    }
    fault(a, "out-of-bounds", name, offset, nullptr);
    em_stop();
}

// ---------------------------------------------------------------- accesses

static inline int bit_of(int group, int kind) { return group + (kind == EM_LOAD ? 0 : GROUPS_MOST); }

static inline bool is_new(const void* site, int bit) {
    const uint32_t at = offset_of(site);
    return at < run.reached_room && !(__atomic_load_n(&run.reached[at], __ATOMIC_RELAXED) >> bit & 1);
}

static __attribute__((noinline, cold)) void reached_first(const Access* a, int group, int64_t offset) {
    const int bit = bit_of(group, a->kind);
    const uint64_t before = __atomic_fetch_or(&run.reached[offset_of(a->site)], (uint64_t)1 << bit, __ATOMIC_RELAXED);
    if (before >> bit & 1) return;
    const EmShared* s = shared_at(offset);
    const uint32_t same = (uint32_t)(bit < GROUPS_MOST ? before : before >> GROUPS_MOST);
    lock(&found.lock);
    found.several += same && !(same & (same - 1));
    *push(&found.reaches, &found.reach_count, &found.reach_room) = ObReach{
        run.launch->name, s ? s->name : nullptr, a->site, offset - (s ? s->offset : 0), a->w->block->number,
        a->thread->linear, a->kind, (int32_t)a->bytes, group};
    unlock(&found.lock);
}

static __attribute__((noinline)) void count(const Access* a, int shared, const char* buffer, int number, int64_t offset) {
    const uint64_t key = ((uint64_t)offset_of(a->site) << 32 | (uint64_t)a->bytes << 8 | shared << 4 | a->kind) + 1;
    const ObSite what = {run.launch->name, buffer, a->site, shared, a->kind, 0, 0, 0, 0, 0};
    count_access(&a->w->counters, key, &what, a->thread->linear, (uint64_t)number << 48 | offset, (int)a->bytes);
}

static inline void access_shared(const Access* a, int64_t offset) {
    Worker* w = a->w;
    const int64_t end = offset + a->bytes;
    const int64_t first = offset >> run.shared_log, last = (end - 1) >> run.shared_log;
    if (__builtin_expect(end > w->shared_bytes || !run.owner[first] || !run.owner[last], 0)) {
        const EmShared* s = shared_at(offset);
        fault(a, "out-of-bounds", s ? s->name : nullptr, offset - (s ? s->offset : 0), nullptr);
        if (end > w->shared_bytes) em_stop();
        return;
    }
    const int group = run.owner[first] - 1;
    if (__builtin_expect(is_new(a->site, bit_of(group, a->kind)), 0)) reached_first(a, group, offset);
    if (run.machine.counting) {
        const EmShared* s = shared_at(offset);
        count(a, 1, s ? s->name : nullptr, 0, offset);
    }
    const Record me = record(w->clock.now, a->thread->linear, offset_of(a->site), a->flags);
    for (int64_t i = first; i <= last; i++) {
        Conflict c = {0, w->block->number, 0};
        if (__builtin_expect(touch(&w->clock, &w->cells[i], me, a->kind, &c), 0)) {
            const EmShared* s = shared_at(i << run.shared_log);
            conflict(a, s ? s->name : nullptr, (i << run.shared_log) - (s ? s->offset : 0), &c);
        }
    }
}

static volatile char stripes[1024];  // blocks run at once: one at a time in each piece of global memory

static inline void access_global(const Access* a, const Global* g, int number, int64_t offset) {
    Worker* w = a->w;
    if (__builtin_expect(offset + a->bytes > g->bytes, 0)) {
        fault(a, "out-of-bounds", g->of->name, offset, nullptr);
        em_stop();
    }
    if (__builtin_expect(a->kind != EM_LOAD && !(g->of->mode & EM_WRITE), 0)) fault(a, "read-only", g->of->name, offset, nullptr);
    if (run.machine.counting) count(a, 0, g->of->name, number, offset);
    if (!g->cells) return;
    const Record me = record(w->clock.now, a->thread->linear, offset_of(a->site), a->flags);
    const int64_t last = (offset + a->bytes - 1) >> g->log;
    for (int64_t i = offset >> g->log; i <= last; i++) {
        Conflict c = {0, 0, 0};
        volatile char* stripe = &stripes[i >> 3 & 1023];
        lock(stripe);
        const bool bad = touch_global(&w->clock, &g->cells[i], me, (uint32_t)w->block->number, run.number, a->kind, &c);
        unlock(stripe);
        if (__builtin_expect(bad, 0)) conflict(a, g->of->name, i << g->log, &c);
    }
}

// Any access. An address with no buffer is a stack's or a constant's, or a fault.
static inline void access(const void* p, int64_t bytes, int align, int kind, int flags, const void* site) {
    if (bytes <= 0 || !run.launch) return;  // code of the host runs between launches
    EmThread* thread = em_current();
    Worker* w = (Worker*)thread->observer[0];
    const Access a = {w, thread, (const unsigned char*)p, site, bytes, kind, flags};
    const bool misaligned = ((uintptr_t)p & (align - 1)) != 0;
    const uint64_t inside = (uint64_t)(a.p - w->arena);
    if (inside < (uint64_t)w->shared_bytes) {
        if (__builtin_expect(misaligned, 0)) {
            const EmShared* s = shared_at(inside);
            fault(&a, "misaligned", s ? s->name : nullptr, inside - (s ? s->offset : 0), nullptr);
            em_stop();
        }
        return access_shared(&a, inside);
    }
    int i = w->last;
    uint64_t at = i < run.global_count ? (uint64_t)(a.p - run.globals[i].base) : ~(uint64_t)0;
    if (i >= run.global_count || at >= (uint64_t)run.globals[i].bytes) {
        for (i = 0; i < run.global_count; i++) {
            at = (uint64_t)(a.p - run.globals[i].base);
            if (at < (uint64_t)run.globals[i].bytes) break;
        }
        if (__builtin_expect(i == run.global_count, 0)) {
            if (((uintptr_t)p ^ (uintptr_t)__builtin_frame_address(0)) < EM_STACK) return;
            if ((uintptr_t)p >= run.image[0] && (uintptr_t)p < run.image[1]) return;
            return outside(&a);
        }
        w->last = i;
    }
    if (__builtin_expect(misaligned, 0)) {
        fault(&a, "misaligned", run.globals[i].of->name, at, nullptr);
        em_stop();
    }
    access_global(&a, &run.globals[i], i, at);
}
