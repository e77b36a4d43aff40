// Asynchronous copies. What one will write is filled with poison when it is issued; its data moves when its unit awaits it,
// which is as late as the hardware may do it.
#include "machine.h"

#include <stdlib.h>
#include <string.h>

struct Part {
    void* to;
    const void* from;
    int64_t bytes;
};

// One execution of an instruction that is under way, as one of its threads knows it.
struct Flight {
    const EmInstr* instr;
    int known_by;  // threads
    bool landed;
    uint64_t* tokens;  // one a thread that has parts in it
    int token_count;
    void** deposits;
};

struct Copies {
    Copies* next;
    Flight* flight;
    int64_t group;
};

static void no_memory() { abort(); }

static void* room(size_t bytes) {
    void* p = malloc(bytes);
    if (!p) no_memory();
    return p;
}

extern "C" void em_part(void* to, const void* from, int64_t bytes, const void* site) {
    Thread* t = current();
    if (t->part_count == t->part_room) {
        t->part_room = t->part_room ? 2 * t->part_room : 4;
        t->parts = (Part*)realloc(t->parts, (size_t)t->part_room * sizeof(Part));
        if (!t->parts) no_memory();
    }
    t->parts[t->part_count++] = {to, from, bytes};
    if (!t->token) t->token = (uint64_t)(t->block->worker + 1) << 48 | ++block_of(t)->tokens;
    ob_async_copy(to, from, (size_t)bytes, t->token, site);
}

static void append(Thread* t, int kind, Flight* f) {
    Copies* c = (Copies*)room(sizeof(Copies));
    *c = {nullptr, f, t->groups[kind]};
    if (kind == EM_COUNTER) t->groups[kind]++;
    (t->first[kind] ? t->last[kind]->next : t->first[kind]) = c;
    t->last[kind] = c;
}

static void take_off(Thread* t, Flight* f) {
    for (int i = 0; i < t->part_count; i++) memset(t->parts[i].to, 0xff, (size_t)t->parts[i].bytes);
    t->part_count = 0;
    if (t->token) f->tokens[f->token_count++] = t->token;
    t->token = 0;
}

static void land(Flight* f) {
    if (!f->landed) {
        f->landed = true;
        f->instr->run(f->deposits);
        for (int i = 0; i < f->token_count; i++) ob_async_done(f->tokens[i]);
    }
    if (--f->known_by == 0) free(f);
}

extern "C" void em_asynchronous(const EmInstr* instr, const void* deposit, int bytes, int kind, const void* site) {
    Thread* t = current();
    Block* b = block_of(t);
    const int n = instr->units, first = t->linear - t->linear % n;
    void* own = (void*)deposit;
    ob_instr(instr->name);
    if (n > 1 && !last_to_come(t, first, n, instr, unit_lanes(t, n), own, site)) return;
    void* const* given = n > 1 ? b->deposits + first : &own;
    // one piece of memory: the flight, pointers, tokens, what the threads deposited
    const size_t each = ((size_t)bytes + 15) & ~(size_t)15, count = (size_t)n;
    char* p = (char*)room(sizeof(Flight) + count * (sizeof(void*) + sizeof(uint64_t) + each));
    Flight* f = (Flight*)p;
    *f = {instr, n, false, (uint64_t*)(p + sizeof(Flight)), 0, (void**)(p + sizeof(Flight) + count * sizeof(uint64_t))};
    char* kept = (char*)(f->deposits + n);
    for (int i = 0; i < n; i++) {
        f->deposits[i] = kept + (size_t)i * each;
        memcpy(f->deposits[i], given[i], (size_t)bytes);
        take_off(&b->all[first + i], f);
        append(&b->all[first + i], kind, f);
    }
    for (int i = first + n - 1; i >= first; i--) {
        if (i != t->linear) make_ready(b, &b->all[i]);
    }
}

extern "C" void em_commit(int kind) { current()->groups[kind]++; }

extern "C" void em_wait(int kind, int pending) {
    Thread* t = current();
    while (t->first[kind] && t->first[kind]->group < t->groups[kind] - pending) {
        Copies* c = t->first[kind];
        t->first[kind] = c->next;
        land(c->flight);
        free(c);
    }
}

void forget_copies(Thread* t) {
    for (int kind = 0; kind < EM_KINDS; kind++) {
        while (Copies* c = t->first[kind]) {
            t->first[kind] = c->next;
            if (--c->flight->known_by == 0) free(c->flight);
            free(c);
        }
    }
    free(t->parts);
    t->parts = nullptr;
}
