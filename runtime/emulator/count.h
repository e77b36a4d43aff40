// Counts of accesses, on request. The accesses that lanes of a unit in lockstep make at one place, each for the n-th time since
// they last met, are one request: exact when all lanes take the same path, else the nearest thing that can be said.
//
// A request of global memory takes as many transactions as it touches sectors; of shared memory as many rounds as it takes until
// no bank has two words left to serve, for groups of lanes that together ask for one word of each bank: 32 lanes of 4 bytes,
// 16 of 8, 8 of 16 (CUDA C++ Programming Guide, "Shared Memory"; the LDS of AMD serves 128 bytes a clock likewise).
#pragma once
#include <stdlib.h>
#include "shadow.h"

// What one unit did at one place since its lanes last met. Row n holds where each lane's n-th access was, plus one.
struct Log {
    uint64_t* rows;
    int32_t count, room;
    int32_t done[OB_LANES];
};

struct Counter {
    uint64_t key;
    ObSite sum;
    int32_t width;  // bytes of an access
    Log* logs;      // by unit
};

// Of one OS thread, for one launch.
struct Counters {
    Counter* table;  // open addressing by key; key 0: free
    int32_t used, room;
    int32_t units, lanes;
    ObInstr instrs[64];
    int32_t instr_count;
};

static const int ROWS_MOST = 1 << 16;  // of one unit at one place between meetings: what comes later is not grouped

static void counters_grow(Counters* c) {
    const int room = c->room ? c->room * 2 : 64;
    Counter* table = (Counter*)calloc(room, sizeof(Counter));
    for (int i = 0; i < c->room; i++) {
        if (!c->table[i].key) continue;
        int at = (int)(c->table[i].key * 0x9e3779b97f4a7c15u >> 40) & (room - 1);
        while (table[at].key) at = (at + 1) & (room - 1);
        table[at] = c->table[i];
    }
    free(c->table);
    c->table = table;
    c->room = room;
}

static Counter* counter_of(Counters* c, uint64_t key) {
    if (c->room) {
        int at = (int)(key * 0x9e3779b97f4a7c15u >> 40) & (c->room - 1);
        for (; c->table[at].key; at = (at + 1) & (c->room - 1))
            if (c->table[at].key == key) return &c->table[at];
    }
    if (2 * (c->used + 1) > c->room) counters_grow(c);
    int at = (int)(key * 0x9e3779b97f4a7c15u >> 40) & (c->room - 1);
    while (c->table[at].key) at = (at + 1) & (c->room - 1);
    c->used++;
    c->table[at].key = key;
    c->table[at].logs = (Log*)calloc(c->units, sizeof(Log));
    return &c->table[at];
}

static void count_access(Counters* c, uint64_t key, const ObSite* what, int thread, uint64_t where, int bytes) {
    Counter* x = counter_of(c, key);
    if (!x->width) x->sum = *what, x->width = bytes;
    x->sum.accesses++;
    x->sum.bytes += bytes;
    Log* log = &x->logs[thread / c->lanes];
    const int n = log->done[thread % c->lanes]++;
    if (n >= ROWS_MOST) return;
    if (n >= log->count) {
        if (n >= log->room) {
            log->room = log->room ? log->room * 2 : 8;
            log->rows = (uint64_t*)realloc(log->rows, (size_t)log->room * c->lanes * sizeof(uint64_t));
        }
        memset(log->rows + (size_t)n * c->lanes, 0, c->lanes * sizeof(uint64_t));
        log->count = n + 1;
    }
    log->rows[(size_t)n * c->lanes + thread % c->lanes] = where + 1;
}

static int compare_u64(const void* a, const void* b) {
    const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
    return x < y ? -1 : x > y;
}

// How many different units of `size` bytes lie under accesses of `width` bytes, and how many bytes.
static void count_sectors(const uint64_t* at, int n, int width, int size, int64_t* sectors, int64_t* distinct) {
    uint64_t sorted[OB_LANES];
    memcpy(sorted, at, n * sizeof(uint64_t));
    for (int i = 1; i < n; i++)
        if (sorted[i] < sorted[i - 1]) {
            qsort(sorted, n, sizeof(uint64_t), compare_u64);
            break;
        }
    uint64_t end = 0, last = ~(uint64_t)0;
    for (int i = 0; i < n; i++) {
        const uint64_t a = sorted[i], b = a + width, first = a / size, to = (b - 1) / size;
        *sectors += to - first + 1 - (last != ~(uint64_t)0 && first <= last ? (to <= last ? to : last) - first + 1 : 0);
        last = to;
        if (b > end) *distinct += b - (a > end || !i ? a : end), end = b;
    }
}

// Rounds that a request of shared memory takes, and the least for as many groups of lanes.
static void count_rounds(const uint64_t* row, int lanes, int width, const ObMachine* m, int64_t* rounds, int64_t* least) {
    const int word = m->bank_bytes, wide = width > word ? width : word;
    int group = m->banks * word / wide;
    group = group < 1 ? 1 : group > lanes ? lanes : group;
    for (int first = 0; first < lanes; first += group) {
        uint64_t words[OB_LANES * 4];
        int n = 0, some = 0;
        for (int i = first; i < first + group && i < lanes; i++) {
            if (!row[i]) continue;
            some = 1;
            for (uint64_t w = (row[i] - 1) / word; w <= (row[i] - 2 + width) / word && n < OB_LANES * 4; w++) words[n++] = w;
        }
        if (!some) continue;
        qsort(words, n, sizeof(uint64_t), compare_u64);
        int load[128] = {0}, most = 0, distinct = 0;
        for (int i = 0; i < n; i++) {
            if (i && words[i] == words[i - 1]) continue;
            const int served = ++load[words[i] % m->banks % 128];
            most = served > most ? served : most;
            distinct++;
        }
        *rounds += most;
        *least += (distinct + m->banks - 1) / m->banks;
    }
}

// The lanes of a unit meet: what they did becomes requests.
static void count_met(Counters* c, int unit, const ObMachine* m) {
    for (int i = 0; i < c->room; i++) {
        Counter* x = &c->table[i];
        if (!x->key || !x->logs[unit].count) continue;
        Log* log = &x->logs[unit];
        for (int n = 0; n < log->count; n++) {
            const uint64_t* row = log->rows + (size_t)n * c->lanes;
            uint64_t at[OB_LANES];
            int some = 0;
            for (int lane = 0; lane < c->lanes; lane++)
                if (row[lane]) at[some++] = row[lane] - 1;
            x->sum.requests++;
            if (x->sum.shared && m->banks > 0) {
                count_rounds(row, c->lanes, x->width, m, &x->sum.transactions, &x->sum.least_transactions);
            } else if (!x->sum.shared && m->sector > 0) {
                int64_t distinct = 0;
                count_sectors(at, some, x->width, m->sector, &x->sum.transactions, &distinct);
                x->sum.least_transactions += (distinct + m->sector - 1) / m->sector;
            }
        }
        log->count = 0;
        memset(log->done, 0, sizeof log->done);
    }
}

static void count_instr(Counters* c, const char* name) {
    for (int i = 0; i < c->instr_count; i++)
        if (c->instrs[i].name == name || !strcmp(c->instrs[i].name, name)) {
            c->instrs[i].count++;
            return;
        }
    if (c->instr_count < 64) c->instrs[c->instr_count++] = ObInstr{nullptr, name, 1};
}

static void counters_free(Counters* c) {
    for (int i = 0; i < c->room; i++) {
        if (!c->table[i].key) continue;
        for (int u = 0; u < c->units; u++) free(c->table[i].logs[u].rows);
        free(c->table[i].logs);
    }
    free(c->table);
    memset(c, 0, sizeof *c);
}
