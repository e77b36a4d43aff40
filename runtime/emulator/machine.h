// Threads and blocks as the runtime holds them.
#pragma once
#include "fibers.h"

struct Copies;

struct Thread : EmThread {
    void* context;       // where it goes on
    void* deposit;       // what it gave to the meeting it waits in
    int stack;           // its number; -1: none
    Copies* first[EM_KINDS];  // asynchronous copies that it has not awaited, oldest first
    Copies* last[EM_KINDS];
    int64_t groups[EM_KINDS];  // that were closed so far
    struct Part* parts;  // of the asynchronous copy that it is about to issue
    int part_count, part_room;
    uint64_t token;      // of that copy; 0: none yet
};

// Threads that execute something together, numbered by the first of them.
struct Meeting {
    const void* what;  // null: nobody waits here
    uint64_t lanes;
    int arrived;
};

struct Block : EmBlock {
    Thread* all;
    EmThread** numbered;
    Meeting* meetings;
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
// Whether `t` is the last of the `expected` threads that meet at the thread `first` for `what`, each with a deposit. Others wait
// until they are made ready.
bool last_to_come(Thread* t, int first, int expected, const void* what, uint64_t lanes, void* deposit, const void* site);
void forget_copies(Thread* t);  // those under way never land
void report(const char* kind, const Thread* t, const Thread* other, const void* site, const void* other_site, const char* text, ...)
    __attribute__((format(printf, 6, 7)));
