// Threads and blocks as the runtime holds them.
#pragma once
#include "fibers.h"

struct Copies;

struct Thread : EmThread {
    void* context;       // where it goes on
    int stack;           // its number; -1: none
    Copies* first[EM_KINDS];  // asynchronous copies that it has not awaited, oldest first
    Copies* last[EM_KINDS];
    int64_t groups[EM_KINDS];  // that were closed so far
    struct Part* parts;  // of the asynchronous copy that it is about to issue
    int part_count, part_room;
    uint64_t token;      // of that copy; 0: none yet
};

// Threads that wait for others to do something together. Those of one unit of lockstep lie from its first thread's number on;
// there may be several, of different lanes.
struct Meeting {
    const void* what;
    uint64_t lanes;
    int arrived, first;  // how many came, which thread did first
};

struct Block : EmBlock {
    Thread* all;
    EmThread** numbered;
    Meeting* meetings;
    int* meeting_counts;  // by the first thread
    void** deposits;
    Thread** ready;  // a ring
    int ring, head, queued;
    int ended, at_barrier;
    int* free_stacks;
    int free_count;
    Stacks stacks;
    void* home;  // the worker's own context
    bool stopped;  // a thread gave up
    uint64_t tokens;
    char* arena_memory;
};

static inline Thread* current() { return (Thread*)em_current(); }
static inline Block* block_of(Thread* t) { return (Block*)t->block; }

void make_ready(Block* b, Thread* t);                    // it runs next
void wait_here(Thread* t, int state, const void* site);  // until it is made ready
// Whether `t` is the last of the `expected` threads of the unit from `base` on that meet for `what`, each with a deposit. Others
// wait until they are made ready. `lanes` tells meetings of one unit apart; 0: all of it.
bool last_to_come(Thread* t, int base, int expected, const void* what, uint64_t lanes, void* deposit, const void* site);
uint64_t unit_lanes(Thread* t, int units);  // the lanes of an instruction of so many threads, for `last_to_come`
void forget_copies(Thread* t);  // those under way never land
void report(const char* kind, const Thread* t, const Thread* other, const void* site, const void* other_site, const char* text, ...)
    __attribute__((format(printf, 6, 7)));
