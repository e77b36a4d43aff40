// The hooks: of the runtime (emulator.h), and of the compiler in the kernel's own code (plain.h).
#include <dlfcn.h>
#if defined(__linux__)
#include <link.h>
#endif
#include "access.h"
#include "plain.h"

static Worker* workers[WORKERS_MOST];

// ---------------------------------------------------------------- calls

static int log_of(int64_t bytes) {
    int log = 0;
    while ((2 << log) <= bytes) log++;
    return log;
}

extern "C" void ob_call_begin(const EmCall* call) {
    run.number = 0;
    run.global_count = 0;
    run.globals = (Global*)malloc((call->global_count + 1) * sizeof(Global));
    for (int i = 0; run.globals && i < call->global_count; i++) {
        const EmGlobal* g = &call->globals[i];
        const int log = log_of(g->element);
        const int64_t cells = (g->bytes >> log) + 1;
        Global* x = &run.globals[run.global_count++];
        *x = Global{(unsigned char*)g->base, g->bytes, nullptr, g, log};
        const bool changes = (g->mode & EM_WRITE) || !g->initialised;
        if (changes && cells <= CELLS_MOST) x->cells = (GlobalCell*)calloc(cells, sizeof(GlobalCell));
        for (int64_t c = 0; x->cells && g->initialised && c < cells; c++) x->cells[c].written = 1;
    }
}

// An output is written wholly.
static void check_outputs() {
    for (int i = 0; i < run.global_count; i++) {
        const Global* g = &run.globals[i];
        if (!g->cells || g->of->initialised || (g->of->mode & EM_READ)) continue;
        int64_t first = -1, count = 0;
        for (int64_t c = 0; c < g->bytes >> g->log; c++) {
            if (g->cells[c].written) continue;
            if (first < 0) first = c;
            count++;
        }
        if (!count) continue;
        EmFault f;
        memset(&f, 0, sizeof f);
        f.kind = "never-written", f.buffer = g->of->name, f.offset = first << g->log, f.count = count;
        f.thread = f.other_thread = -1;
        snprintf(f.message, sizeof f.message, "%lld elements are never written", (long long)count);
        em_fault(&f);
    }
}

static void drop(Worker* w) {
    for (uint32_t* x : w->clock.apart) free(x);
    free(w->cells);
    free(w->copies);
    counters_free(&w->counters);
    free(w);
}

extern "C" void ob_call_end(const EmCall*) {
    if (em_fault_count() == 0 && plain_accesses) check_outputs();
    for (int i = 0; i < run.global_count; i++) free(run.globals[i].cells);
    free(run.globals);
    run.globals = nullptr;
    run.global_count = 0;
    for (Worker*& w : workers) {
        if (w) drop(w);
        w = nullptr;
    }
    free(run.reached);
    free(run.owner);
    run.reached = nullptr, run.owner = nullptr;
    run.reached_room = run.owner_room = 0;
}

// ---------------------------------------------------------------- launches

#if defined(__linux__)
static int find_image(struct dl_phdr_info* info, size_t, void*) {
    if ((unsigned char*)info->dlpi_addr != run.text) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > run.image[1]) run.image[1] = end;
    }
    return 1;
}
#endif

static void find_text(const EmLaunch* l) {
    Dl_info info;
    unsigned char* text = dladdr((const void*)l->body, &info) ? (unsigned char*)info.dli_fbase : nullptr;
    if (text != run.text || !run.reached) {
        run.text = text;
        run.image[0] = run.image[1] = (uintptr_t)text;
#if defined(__linux__)
        dl_iterate_phdr(find_image, nullptr);
#endif
        int64_t size = run.image[1] - run.image[0];
        if (size <= 0 || size > SITE_MOST) size = SITE_MOST;
        free(run.reached);
        run.reached = (uint64_t*)calloc(size, sizeof(uint64_t));
        run.reached_room = run.reached ? size : 0;
    }
}

static void exceeded(const char* kind, const EmLaunch* launch, int64_t needs) {
    EmFault f;
    memset(&f, 0, sizeof f);
    f.kind = kind, f.buffer = launch->name, f.offset = needs, f.thread = f.other_thread = -1;
    em_fault(&f);
}

extern "C" void ob_launch_begin(const EmLaunch* launch) {
    run.launch = launch;
    run.number++;
    if (run.machine.threads && launch->threads > run.machine.threads) exceeded("threads", launch, launch->threads);
    if (run.machine.shared_bytes && launch->shared_bytes > run.machine.shared_bytes)
        exceeded("shared-bytes", launch, launch->shared_bytes);
    find_text(launch);
    memset(run.reached, 0, run.reached_room * sizeof(uint64_t));
    lay_out_shared(launch);
}

extern "C" void ob_launch_end(const EmLaunch* launch) {
    ObLaunch sum = {launch->name, launch->blocks, launch->threads, 0};
    for (Worker* w : workers) {
        if (!w) continue;
        sum.barriers += w->barriers;
        w->barriers = 0;
        Counters* c = &w->counters;
        for (int i = 0; i < c->room; i++) {
            if (!c->table[i].key) continue;
            const ObSite* s = &c->table[i].sum;
            ObSite* to = nullptr;
            for (int j = 0; j < found.site_count && !to; j++) {
                ObSite* x = &found.sites[j];
                if (x->site == s->site && x->kernel == s->kernel && x->access == s->access && x->shared == s->shared) to = x;
            }
            if (!to) {
                *push(&found.sites, &found.site_count, &found.site_room) = *s;
                continue;
            }
            to->accesses += s->accesses, to->bytes += s->bytes, to->requests += s->requests;
            to->transactions += s->transactions, to->least_transactions += s->least_transactions;
        }
        for (int i = 0; i < c->instr_count; i++) {
            ObInstr* to = nullptr;
            for (int j = 0; j < found.instr_count && !to; j++) {
                ObInstr* x = &found.instrs[j];
                if (x->kernel == launch->name && !strcmp(x->name, c->instrs[i].name)) to = x;
            }
            if (!to) {
                to = push(&found.instrs, &found.instr_count, &found.instr_room);
                *to = ObInstr{launch->name, c->instrs[i].name, 0};
            }
            to->count += c->instrs[i].count;
        }
        counters_free(c);
    }
    if (run.machine.counting) *push(&found.launches, &found.launch_count, &found.launch_room) = sum;
    run.launch = nullptr;
}

// ---------------------------------------------------------------- blocks

static const uint32_t TICKS_MOST = 1u << 29;

static Worker* worker_of(EmBlock* b) {
    Worker*& w = workers[b->worker % WORKERS_MOST];
    if (!w) w = (Worker*)calloc(1, sizeof(Worker));
    return w;
}

extern "C" void ob_block_begin(EmBlock* b) {
    const EmLaunch* l = b->launch;
    Worker* w = worker_of(b);
    w->block = b;
    w->arena = b->arena;
    w->shared_bytes = l->shared_bytes;
    clock_lanes_are(&w->clock, l->lanes);
    const int64_t cells = (l->shared_bytes >> run.shared_log) + 1;
    if (cells > w->cell_room) {
        free(w->cells);
        w->cells = (Cell*)calloc(cells, sizeof(Cell));
        w->cell_room = cells;
    }
    if (w->clock.now > TICKS_MOST) {
        memset(w->cells, 0, w->cell_room * sizeof(Cell));
        memset(w->clock.warp, 0, sizeof w->clock.warp);
        w->clock.now = 0;
    }
    clock_block(&w->clock);
    memset(w->chains, 0, sizeof w->chains);
    w->copy_used = w->copy_free = 0;
    if (run.machine.counting && !w->counters.units) {
        w->counters.lanes = l->lanes < OB_LANES ? l->lanes : OB_LANES;
        w->counters.units = (l->threads + w->counters.lanes - 1) / w->counters.lanes;
    }
    for (int i = 0; i < l->threads; i++) b->threads[i]->observer[0] = w;
}

extern "C" void ob_block_end(EmBlock* b) {
    Worker* w = worker_of(b);
    for (int u = 0; u < w->counters.units; u++) count_met(&w->counters, u, &run.machine);
    faults_again(w);
}

// All threads have come: but to the same barrier? What compilers copied is one in the text, so that is looked at later.
extern "C" void ob_barrier(EmBlock* b) {
    Worker* w = worker_of(b);
    clock_meet(&w->clock);
    w->barriers++;
    for (int u = 0; u < w->counters.units; u++) count_met(&w->counters, u, &run.machine);
    const EmThread* first = nullptr;
    for (int i = 0; i < b->launch->threads; i++) {
        EmThread* t = b->threads[i];
        if (t->state != EM_AT_BARRIER) continue;
        if (!first) first = t;
        if (t->site == first->site) continue;
        const Access a = {w, t, nullptr, t->site, 0, 0, 0};
        const Conflict c = {record(0, first->linear, offset_of(first->site), 0), b->number, EM_LOAD};
        return fault(&a, "divergent-barrier", nullptr, 0, &c);
    }
}

static uint32_t* apart(Clock* c, int warp) {
    return c->apart[warp] = (uint32_t*)calloc(OB_LANES * OB_LANES, sizeof(uint32_t));
}

extern "C" void ob_warp_sync(EmBlock* b, int first_thread, uint64_t lanes) {
    Worker* w = worker_of(b);
    const int size = b->launch->lanes, rest = b->launch->threads - first_thread, n = size < rest ? size : rest;
    const uint64_t all = n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
    clock_lanes(&w->clock, first_thread / size, lanes, all, apart);
    if (w->counters.units && lanes == all) count_met(&w->counters, first_thread / size, &run.machine);
}

// ---------------------------------------------------------------- accesses that are not plain

extern "C" void ob_access(const void* p, size_t bytes, int is_write, int is_atomic, const void* site) {
    access(p, (int64_t)bytes, 1, is_atomic ? EM_ATOMIC : is_write ? EM_STORE : EM_LOAD, 0, site);
}

extern "C" void ob_misaligned(const void* p, size_t bytes, int align, int is_write, const void* site) {
    access(p, (int64_t)bytes, align, is_write ? EM_STORE : EM_LOAD, 0, site);
}

extern "C" void ob_instr(const char* name) {
    if (run.machine.counting) count_instr(&((Worker*)em_current()->observer[0])->counters, name);
}

// ---------------------------------------------------------------- asynchronous copies

// Until it is awaited, a copy may read its source and write its destination at any time: nobody else may write the one, nobody
// at all may touch the other.
extern "C" void ob_async_copy(const void* to, const void* from, size_t bytes, uint64_t token, const void* site) {
    if (from) access(from, (int64_t)bytes, 1, EM_LOAD, 0, site);
    access(to, (int64_t)bytes, 1, EM_STORE, R_UNDER_WAY, site);
    Worker* w = (Worker*)em_current()->observer[0];
    int at = w->copy_free - 1;
    if (at >= 0) {
        w->copy_free = w->copies[at].next;
    } else {
        at = w->copy_used;
        push(&w->copies, &w->copy_used, &w->copy_room);
    }
    int* chain = &w->chains[token % CHAINS];
    w->copies[at] = Copy{token, (unsigned char*)to, (const unsigned char*)from, site, w->clock.now, (int32_t)bytes, *chain};
    *chain = at + 1;
}

static void land(Worker* w, const Copy* c) {
    EmThread* thread = em_current();
    const uint64_t inside = (uint64_t)(c->to - w->arena);
    const Record me = record(w->clock.now, thread->linear, offset_of(c->site), 0);
    if (inside < (uint64_t)w->shared_bytes) {
        const int64_t last = (int64_t)(inside + c->bytes - 1) >> run.shared_log;
        for (int64_t i = inside >> run.shared_log; i <= last; i++) {
            Record* r = &w->cells[i].writer;
            if (*r & R_UNDER_WAY && site_of(*r) == site_of(me)) *r = me;
        }
    }
    for (int n = 0; n < run.global_count; n++) {
        const Global* g = &run.globals[n];
        const uint64_t to = (uint64_t)(c->to - g->base), from = (uint64_t)(c->from - g->base);
        if (!g->cells) continue;
        for (int64_t i = to >> g->log; to < (uint64_t)g->bytes && i <= (int64_t)(to + c->bytes - 1) >> g->log; i++) {
            Record* r = &g->cells[i].cell.writer;
            if (*r & R_UNDER_WAY && site_of(*r) == site_of(me)) *r = me;
        }
        for (int64_t i = from >> g->log; c->from && from < (uint64_t)g->bytes && i <= (int64_t)(from + c->bytes - 1) >> g->log; i++) {
            const GlobalCell* x = &g->cells[i];
            const Record r = x->cell.writer;
            const bool since = x->block[0] == (uint32_t)w->block->number ? stamp_of(r) > c->stamp : true;
            if (x->launch != run.number || !r || !since) continue;
            const Conflict with = {r, x->block[0], EM_STORE};
            const Access read = {w, thread, c->from, c->site, c->bytes, EM_LOAD | EM_UNDER_WAY, 0};
            fault(&read, "in-flight", g->of->name, i << g->log, &with);
        }
    }
}

extern "C" void ob_async_done(uint64_t token) {
    Worker* w = (Worker*)em_current()->observer[0];
    int* from = &w->chains[token % CHAINS];
    while (*from) {
        Copy* c = &w->copies[*from - 1];
        if (c->token != token) {
            from = &c->next;
            continue;
        }
        land(w, c);
        const int at = *from;
        *from = c->next;
        c->next = w->copy_free;
        w->copy_free = at;
    }
}

// ---------------------------------------------------------------- what can be asked

extern "C" void ob_machine(const ObMachine* machine) { run.machine = *machine; }
extern "C" const void* ob_text() { return run.text; }
extern "C" void ob_clear() {
    found.site_count = found.launch_count = found.instr_count = found.reach_count = found.several = 0;
}
extern "C" int ob_site_count() { return found.site_count; }
extern "C" const ObSite* ob_site_at(int i) { return &found.sites[i]; }
extern "C" int ob_launch_count() { return found.launch_count; }
extern "C" const ObLaunch* ob_launch_at(int i) { return &found.launches[i]; }
extern "C" int ob_instr_count() { return found.instr_count; }
extern "C" const ObInstr* ob_instr_at(int i) { return &found.instrs[i]; }
extern "C" int ob_reach_count() { return found.reach_count; }
extern "C" const ObReach* ob_reach_at(int i) { return &found.reaches[i]; }
extern "C" int ob_several() { return found.several; }
