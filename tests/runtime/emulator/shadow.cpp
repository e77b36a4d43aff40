// The observer's shadows, driven by themselves: for test_shadow.py.
#include "shadow.h"

static Clock the_clock;
static Cell cells[64];
static GlobalCell global_cells[64];

static uint32_t* apart(Clock* c, int warp) {
    static uint32_t tables[64][OB_LANES * OB_LANES];
    memset(tables[warp], 0, sizeof tables[warp]);
    return c->apart[warp] = tables[warp];
}

extern "C" {
void begin(int lanes) {
    memset(cells, 0, sizeof cells);
    memset(global_cells, 0, sizeof global_cells);
    memset(&the_clock, 0, sizeof the_clock);
    clock_lanes_are(&the_clock, lanes);
    clock_block(&the_clock);
}
void meet() { clock_meet(&the_clock); }
void meet_lanes(int warp, uint64_t lanes, uint64_t all) { clock_lanes(&the_clock, warp, lanes, all, apart); }
void await_copy(int cell, int thread) { cells[cell].writer = record(the_clock.now, thread, 0, 0); }
// What `touch` finds: 0, or EmAccess, or -1; with the thread in the upper bits.
int access(int cell, int thread, int kind, int under_way) {
    Conflict c = {0, 0, 0};
    const Record me = record(the_clock.now, thread, 0, under_way ? R_UNDER_WAY : 0);
    return touch(&the_clock, &cells[cell], me, kind, &c) ? (c.access < 0 ? -1 : thread_of(c.with) << 8 | c.access) : 0;
}
int access_global(int cell, int thread, int block, int launch, int kind) {
    Conflict c = {0, 0, 0};
    const Record me = record(the_clock.now, thread, 0, 0);
    const bool bad = touch_global(&the_clock, &global_cells[cell], me, block, launch, kind, &c);
    return bad ? (c.access < 0 ? -1 : thread_of(c.with) << 8 | c.access) : 0;
}
}
