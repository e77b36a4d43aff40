// What was found, for whoever asks after the call: one fault of each kind, buffer and site.
#include "machine.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const int MOST = 64;
static EmFault found[MOST];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool alike(const EmFault* a, const EmFault* b) {
    return a->site == b->site && a->buffer == b->buffer && !strcmp(a->kind, b->kind);
}

extern "C" void em_fault(const EmFault* fault) {
    const uint64_t times = fault->count ? fault->count : 1;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < count && !alike(&found[i], fault)) i++;
    if (i < count) {
        found[i].count += times;
    } else if (count < MOST) {
        found[count] = *fault;
        found[count++].count = times;
    }
    pthread_mutex_unlock(&lock);
}

extern "C" EM_SEEN int em_fault_count() { return count; }
extern "C" EM_SEEN const EmFault* em_fault_at(int i) { return &found[i]; }
extern "C" EM_SEEN void em_fault_clear() { count = 0; }

void report(const char* kind, const Thread* t, const Thread* other, const void* site, const void* other_site, const char* text, ...) {
    EmFault f = {};
    f.kind = kind;
    va_list args;
    va_start(args, text);
    vsnprintf(f.message, sizeof f.message, text, args);
    va_end(args);
    f.block = t ? t->block->number : 0;
    f.other_block = f.block;
    f.thread = t ? t->linear : -1;
    f.other_thread = other ? other->linear : -1;
    f.site = site;
    f.other_site = other_site;
    em_fault(&f);
}
