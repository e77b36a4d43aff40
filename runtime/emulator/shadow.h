// Who touched each cell of memory, and whether two accesses are ordered.
//
// A clock of each OS thread ticks whenever threads of its block meet. An access by thread u at time s is ordered before one by
// thread v of the same block if
//
//     SAME_THREAD  u is v, or
//     MET          all threads of the block, or a set of lanes that holds u and v, met after s.
//
// Lanes of a warp are not in lockstep unless they meet. Blocks of a launch are never ordered; launches are. Two accesses of a
// cell, at least one a write and not both atomic, that are not ordered are a race.
//
// TWO_READERS: one last writer and two readers since then are enough. Of two readers that are kept the one furthest from the
// latest (another block, another warp, another thread) stays: as long as the block has not met, whoever writes next is not
// ordered after one of them, if it is not ordered after one that was dropped; when it has met, all earlier ones are dropped.
#pragma once
#include <string.h>
#include "observe.h"

#define OB_LANES 64
#define OB_WARPS 1024
#define OB_THREADS 1024

// stamp 30 bits, thread 10, offset of the site 22, flags 2
typedef uint64_t Record;
enum { R_ATOMIC = 1, R_UNDER_WAY = 2, SITE_BITS = 22, SITE_MOST = (1 << SITE_BITS) - 1 };

static inline Record record(uint32_t stamp, int thread, uint32_t site, int flags) {
    return (uint64_t)stamp << 34 | (uint64_t)(thread & 1023) << 24 | (uint64_t)site << 2 | flags;
}
static inline uint32_t stamp_of(Record r) { return (uint32_t)(r >> 34); }
static inline int thread_of(Record r) { return (int)(r >> 24) & 1023; }
static inline uint32_t site_of(Record r) { return (uint32_t)(r >> 2) & SITE_MOST; }

// When a block's threads met. `apart`: last times that lane v learnt of lane u, for warps of which only some lanes met.
struct Clock {
    uint32_t now, start, met;  // start: of the block; met: all of it
    uint32_t warp[OB_WARPS];
    uint32_t* apart[OB_WARPS];  // OB_LANES x OB_LANES
    int lanes;
    uint16_t warp_of[OB_THREADS];  // a division less for each access
};

static void clock_lanes_are(Clock* c, int lanes) {
    if (c->lanes == lanes) return;
    c->lanes = lanes;
    for (int t = 0; t < OB_THREADS; t++) c->warp_of[t] = (uint16_t)(t / lanes);
}

static inline bool ordered(const Clock* c, Record before, int v) {
    const int u = thread_of(before);
    const uint32_t s = stamp_of(before);
    if (u == v || s < c->met) return true;
    const int warp = c->warp_of[v], first = warp * c->lanes;
    if (c->warp_of[u] != warp) return false;
    if (s < c->warp[warp]) return true;
    return c->apart[warp] && s < c->apart[warp][(v - first) * OB_LANES + (u - first)];
}

static void clock_block(Clock* c) {
    c->start = c->met = ++c->now;
    for (int w = 0; w < OB_WARPS; w++)
        if (c->apart[w]) memset(c->apart[w], 0, OB_LANES * OB_LANES * sizeof(uint32_t));
}

static inline void clock_meet(Clock* c) { c->met = ++c->now; }

// Some lanes of a warp met: each of them knows from now on what any of them knew.
static void clock_lanes(Clock* c, int warp, uint64_t lanes, uint64_t all, uint32_t* (*table)(Clock*, int)) {
    c->now++;
    if (lanes == all) {
        c->warp[warp] = c->now;
        return;
    }
    uint32_t* t = c->apart[warp] ? c->apart[warp] : table(c, warp);
    uint32_t joined[OB_LANES];
    for (int u = 0; u < OB_LANES; u++) {
        joined[u] = lanes >> u & 1 ? c->now : 0;
        for (int v = 0; v < OB_LANES && !(lanes >> u & 1); v++)
            if (lanes >> v & 1 && t[v * OB_LANES + u] > joined[u]) joined[u] = t[v * OB_LANES + u];
    }
    for (int v = 0; v < OB_LANES; v++)
        if (lanes >> v & 1) memcpy(t + v * OB_LANES, joined, sizeof joined);
}

// What a check finds: 0, or how the earlier access that conflicts was made.
struct Conflict {
    Record with;
    int64_t block;
    int access;  // EmAccess; 0: nothing; -1: never written
};

// Shared memory of one block. reader[0]: the latest; [1]: one further away (TWO_READERS); [2]: the latest of the other sort,
// where some read and some combine.
struct Cell {
    Record writer, reader[3];
};
enum { READERS = 3 };

static inline int how(Record r, int plain) {
    return r & R_UNDER_WAY ? EM_UNDER_WAY : r & R_ATOMIC ? EM_ATOMIC : plain;
}

static inline bool after_writer(const Clock* c, Record w, int v) { return !(w & R_UNDER_WAY) && ordered(c, w, v); }

// Whether an access conflicts with a reader if nothing orders them.
static inline bool conflicts(Record r, int access) {
    return access == EM_STORE || (access == EM_ATOMIC) != (bool)(r & R_ATOMIC);
}

static inline void note_reader(const Clock* c, Cell* x, Record me) {
    const int v = thread_of(me);
    const Record first = x->reader[0];
    if (stamp_of(first) >= c->met && thread_of(first) != v) {
        const Record second = x->reader[1];
        const int warp = c->warp_of[v];
        const bool keep = stamp_of(second) >= c->met && c->warp_of[thread_of(second)] != warp &&
                          c->warp_of[thread_of(first)] == warp;
        if (!keep) x->reader[1] = first;
    }
    if ((first ^ me) & R_ATOMIC) x->reader[2] = first;
    x->reader[0] = me;
}

// Records an access. True if there is something wrong with it, which `found` then tells.
static inline bool touch(const Clock* c, Cell* x, Record me, int access, Conflict* found) {
    const int v = thread_of(me);
    const Record w = x->writer;
    bool bad = false;
    if (stamp_of(w) < c->start) {
        if (access != EM_STORE) found->access = -1, bad = true;
    } else if (!after_writer(c, w, v)) {
        found->with = w, found->access = how(w, EM_STORE), bad = true;
    }
    if (access != EM_LOAD || (x->reader[0] | x->reader[2]) & R_ATOMIC) {
        for (int i = 0; i < READERS && !bad; i++) {
            const Record r = x->reader[i];
            if (stamp_of(r) < c->met || !conflicts(r, access) || ordered(c, r, v)) continue;
            found->with = r, found->access = how(r, EM_LOAD), bad = true;
        }
    }
    if (access == EM_STORE) {
        x->writer = me;
        x->reader[0] = x->reader[1] = x->reader[2] = 0;
    } else {
        note_reader(c, x, access == EM_ATOMIC ? me | R_ATOMIC : me);
    }
    return bad;
}

// Global memory: the same, with the block of each access. `launch`: the one that the records are of; `written`: in any launch.
struct GlobalCell {
    Cell cell;
    uint32_t block[1 + READERS];  // of the writer and the readers
    uint32_t launch : 31, written : 1;
};

static inline void note_global(const Clock* c, GlobalCell* g, Record me, uint32_t block) {
    Cell* x = &g->cell;
    const int v = thread_of(me);
    // how far a reader is from this one: 0 need not be kept, 1 another thread, 2 another warp, 3 another block
    int far[2];
    for (int i = 0; i < 2; i++) {
        const Record r = x->reader[i];
        if (!r) far[i] = 0;
        else if (g->block[i + 1] != block) far[i] = 3;
        else if (stamp_of(r) < c->met || thread_of(r) == v) far[i] = 0;
        else far[i] = c->warp_of[thread_of(r)] == c->warp_of[v] ? 1 : 2;
    }
    if (x->reader[0] && (x->reader[0] ^ me) & R_ATOMIC) x->reader[2] = x->reader[0], g->block[3] = g->block[1];
    if (far[0] && far[0] >= far[1]) x->reader[1] = x->reader[0], g->block[2] = g->block[1];
    x->reader[0] = me, g->block[1] = block;
}

static inline bool touch_global(const Clock* c, GlobalCell* g, Record me, uint32_t block, uint32_t launch, int access, Conflict* found) {
    if (g->launch != launch) {
        memset(&g->cell, 0, sizeof g->cell);
        g->launch = launch;
    }
    Cell* x = &g->cell;
    const int v = thread_of(me);
    bool bad = false;
    if (!g->written && access != EM_STORE) found->access = -1, bad = true;
    if (!bad && x->writer && (g->block[0] != block || !after_writer(c, x->writer, v)))
        found->with = x->writer, found->block = g->block[0], found->access = how(x->writer, EM_STORE), bad = true;
    for (int i = 0; i < READERS && !bad; i++) {
        const Record r = x->reader[i];
        if (r && conflicts(r, access) && (g->block[i + 1] != block || !ordered(c, r, v)))
            found->with = r, found->block = g->block[i + 1], found->access = how(r, EM_LOAD), bad = true;
    }
    if (access == EM_STORE) {
        x->writer = me, g->block[0] = block, g->written = 1;
        x->reader[0] = x->reader[1] = x->reader[2] = 0;
    } else {
        note_global(c, g, access == EM_ATOMIC ? me | R_ATOMIC : me, block);
    }
    return bad;
}
