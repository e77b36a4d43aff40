// What several threads do together: barriers, meetings, exchanges, instructions.
#include "machine.h"

static int count_of(uint64_t lanes) { return __builtin_popcountll(lanes); }

extern "C" void em_barrier() {
    Thread* t = current();
    Block* b = block_of(t);
    const int all = b->launch->threads;
    if (++b->at_barrier < all) return wait_here(t, EM_AT_BARRIER, __builtin_return_address(0));
    b->at_barrier = 0;
    b->epoch++;
    for (int i = 0; i < all; i++) b->all[i].epoch++;
    ob_barrier(b);
    for (int i = all - 1; i >= 0; i--) {
        if (&b->all[i] != t) make_ready(b, &b->all[i]);
    }
}

bool last_to_come(Thread* t, int base, int expected, const void* what, uint64_t lanes, void* deposit, const void* site) {
    Block* b = block_of(t);
    Meeting* found = b->meetings + base;
    int* count = &b->meeting_counts[base];
    int i = 0;
    while (i < *count && found[i].lanes != lanes) i++;
    if (i == *count) {
        // each has one that waits; a unit larger than one in lockstep has one meeting at a time
        if (i == b->launch->lanes || base + i == b->launch->threads) {
            report("divergent-call", t, nullptr, site, nullptr, "more meetings at once than a unit has threads");
            em_stop();
        }
        found[(*count)++] = {what, lanes, 0, t->linear};
    } else if (found[i].what != what) {
        const Thread* other = &b->all[found[i].first];
        report("divergent-call", t, other, site, other->site, "a unit executes two things at once: its threads part ways");
        em_stop();
    }
    b->deposits[t->linear] = deposit;
    if (++found[i].arrived == expected) {
        found[i] = found[--*count];
        return true;
    }
    wait_here(t, EM_AT_MEETING, site);
    return false;
}

// The threads of a unit of lockstep that `lanes` names and that exist.
static uint64_t existing(Thread* t, uint64_t lanes) {
    const int width = block_of(t)->launch->lanes, there = block_of(t)->launch->threads - (t->linear - t->lane);
    const int most = width < there ? width : there;
    return most >= 64 ? lanes : lanes & ((uint64_t(1) << most) - 1);
}

uint64_t unit_lanes(Thread* t, int units) { return units == block_of(t)->launch->lanes ? existing(t, ~uint64_t(0)) : 0; }

static void release_lanes(Thread* t, uint64_t lanes) {
    Block* b = block_of(t);
    const int base = t->linear - t->lane;
    for (uint64_t rest = lanes & ~(uint64_t(1) << t->lane); rest;) {
        const int lane = 63 - __builtin_clzll(rest);
        rest &= ~(uint64_t(1) << lane);
        make_ready(b, &b->all[base + lane]);
    }
}

static const char MEET = 0, EXCHANGE = 0;

extern "C" void em_meet(uint64_t lanes) {
    Thread* t = current();
    lanes = existing(t, lanes);
    const int base = t->linear - t->lane;
    if (last_to_come(t, base, count_of(lanes), &MEET, lanes, t, __builtin_return_address(0))) {
        ob_warp_sync(t->block, base, lanes);
        release_lanes(t, lanes);
    }
}

struct Exchange {
    uint64_t bits;
    int other;
};

extern "C" uint64_t em_exchange(uint64_t bits, uint64_t lanes, int other, const void* site) {
    Thread* t = current();
    Block* b = block_of(t);
    Exchange mine = {bits, other};
    lanes = existing(t, lanes);
    if (!(lanes >> t->lane & 1)) {
        report("divergent-reduce", t, nullptr, site, nullptr, "a thread takes part in an exchange that does not name its lane");
        em_stop();
    }
    const int base = t->linear - t->lane;
    if (last_to_come(t, base, count_of(lanes), &EXCHANGE, lanes, &mine, site)) {
        // what each gave, before any of it is replaced by what it gets
        uint64_t given[64];
        for (uint64_t rest = lanes; rest; rest &= rest - 1) {
            const int lane = __builtin_ctzll(rest);
            given[lane] = ((Exchange*)b->deposits[base + lane])->bits;
        }
        for (uint64_t rest = lanes; rest; rest &= rest - 1) {
            Exchange* e = (Exchange*)b->deposits[base + __builtin_ctzll(rest)];
            if (e->other < 0 || e->other > 63 || !(lanes >> e->other & 1)) {
                report("divergent-reduce", t, nullptr, site, nullptr, "lane %d, whose value is asked for, takes no part", e->other);
                em_stop();
            }
            e->bits = given[e->other];
        }
        release_lanes(t, lanes);
    }
    return mine.bits;
}

extern "C" void em_together(const EmInstr* instr, void* deposit, const void* site) {
    Thread* t = current();
    Block* b = block_of(t);
    const int first = t->linear - t->linear % instr->units;
    ob_instr(instr->name);
    if (!last_to_come(t, first, instr->units, instr, unit_lanes(t, instr->units), deposit, site)) return;
    instr->run(b->deposits + first);
    for (int i = first + instr->units - 1; i >= first; i--) {
        if (i != t->linear) make_ready(b, &b->all[i]);
    }
}

extern "C" void em_alone(const EmInstr* instr, void* deposit) {
    ob_instr(instr->name);
    instr->run(&deposit);
}

extern "C" void em_disagree(const char* instr, const char* operand) {
    Thread* t = current();
    report("replica-mismatch", t, nullptr, t->site, nullptr, "threads of %s differ about an element of %s that several hold", instr,
           operand);
}

extern "C" void em_align(const void* p, int64_t bytes, int align, int is_write, const void* site) {
    if (align > 1 && (uintptr_t)p % (unsigned)align != 0) ob_misaligned(p, (size_t)bytes, align, is_write, site);
}

extern "C" void em_touch(const void* p, int64_t bytes, int align, int is_write, int is_atomic, const void* site) {
    em_align(p, bytes, align, is_write, site);
    ob_access(p, (size_t)bytes, is_write, is_atomic, site);
}
