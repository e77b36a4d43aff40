"""The observer, on kernels written by hand: each fault is found, named and placed, and what is right is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.runtime.emulator.observer_records import ATOMIC, LOAD, STORE, UNDER_WAY

from ...support.gpu.handwritten_kernels import run

REVERSE = """
    s[thread] = A[block * 64 + thread];
    em_barrier();
    C[block * 64 + thread] = s[63 - thread];
"""


def test_right() -> None:
    r = run(REVERSE)
    assert (r.status, r.faults) == (0, [])
    np.testing.assert_array_equal(r.out[:64], np.arange(63, -1, -1))


def test_no_barrier() -> None:
    r = run(REVERSE.replace("em_barrier();", ";"))
    assert r.status == 3
    assert r.kinds == {"race", "uninitialised"}
    reads = {f.other_access for f in r.faults if f.kind == "race" and f.access == LOAD}
    assert reads == {STORE}
    assert all(set(w) <= {0, 1, 3} for w in r.where)
    race = next(f for f in r.faults if f.kind == "race")
    assert (race.buffer, race.bytes) == ("s", 4)
    assert race.offset // 4 == (63 - race.thread if race.access == LOAD else race.thread)


def test_barrier_before_the_next_iteration() -> None:
    """Read before, written after: every thread sees right numbers, whichever order they run in."""
    loop = """
    for (int i = 0; i < 3; i++) {
        s[thread] = A[thread] + i;
        em_barrier();
        C[block * 64 + thread] = s[63 - thread];
        em_barrier();
    }
    """
    assert run(loop).faults == []
    r = run(loop.replace("        em_barrier();\n    }", "    }"))
    assert r.kinds == {"race"}
    assert (STORE, LOAD) in {(f.access, f.other_access) for f in r.faults}
    assert (2, 4) in r.where


@pytest.mark.parametrize("meet", [True, False])
def test_lanes_are_not_in_lockstep(meet: bool) -> None:
    r = run(f"""
    s[thread] = A[thread];
    {"em_meet(~UINT64_C(0));" if meet else ""}
    C[block * 64 + thread] = s[thread ^ 1];
    """)
    assert (r.faults == []) == meet
    assert meet or "race" in r.kinds


def test_a_warp_does_not_order_others() -> None:
    r = run("""
    s[thread] = A[thread];
    em_meet(~UINT64_C(0));
    C[block * 64 + thread] = s[(thread + 32) % 64];
    """)
    assert {"race", "uninitialised"} >= r.kinds != set()


def test_write_twice() -> None:
    r = run("""
    s[thread / 2] = 1;
    em_barrier();
    C[block * 64 + thread] = s[thread / 2];
    """)
    (fault,) = r.faults
    assert (fault.kind, fault.access, fault.other_access) == ("race", STORE, STORE)
    assert r.where == [(1, 1)]
    assert abs(fault.thread - fault.other_thread) == 1


def test_blocks_are_not_ordered() -> None:
    r = run("""
    C[block * 64 + thread] = 0;
    if (block == 0) W[thread] = 1;
    else C[block * 64 + thread] = W[thread];
    """)
    assert "race" in r.kinds | {"race" if "uninitialised" in r.kinds else ""}
    r = run("C[block * 64 + thread] = 1; C[thread] = 1;", workers=1)
    assert r.kinds == {"race"}
    assert {f.other_block for f in r.faults} == {0}
    assert {f.block for f in r.faults} == {1}


def test_atomics() -> None:
    body = """
    if (block == 0) {}
    em_touch(&C[thread], 4, 4, 1, 1, __builtin_return_address(0));
    """
    r = run("C[block * 64 + thread] = 0; em_barrier();" + body)
    assert "race" in r.kinds  # block 1 combines with what block 0 wrote in this launch
    assert (ATOMIC, STORE) in {(f.access, f.other_access) for f in r.faults}


@pytest.mark.parametrize(
    ("body", "buffer", "element", "access"),
    [
        ("C[block * 64 + thread] = A[block * 64 + thread + 1];", "A", 128, LOAD),
        ("C[block * 64 + thread] = A[block * 64 + thread - 1];", "A", -1, LOAD),
        ("C[block * 64 + thread + 1] = 0;", "C", 128, STORE),
        ("s[thread + 1] = 0; C[block * 64 + thread] = 0;", "s", 64, STORE),
        ("C[block * 64 + thread] = t[thread - 4];", "s", 64, LOAD),
        ("t[thread + 3] = 0; C[block * 64 + thread] = 0;", "t", 64, STORE),
    ],
)
def test_out_of_bounds(body: str, buffer: str, element: int, access: int) -> None:
    r = run(body)
    found = [f for f in r.faults if f.kind == "out-of-bounds"]
    assert {(f.buffer, f.access) for f in found} == {(buffer, access)}
    assert element in {f.offset // 4 for f in found}
    assert {r.line(f.site) for f in found} == {1}


def test_far_away() -> None:
    """An access that would end the process ends the call."""
    r = run("C[block * 64 + thread] = A[INT64_C(1) << 40];")
    assert r.status == 3
    assert {(f.kind, f.buffer) for f in r.faults} == {("out-of-bounds", "")}


def test_another_buffer() -> None:
    """A place of the code that reaches two buffers is told, for who knows which one is meant."""
    r = run("s[thread + 4] = 0; C[block * 64 + thread] = 0;")
    assert not r.observer.several()
    r = run("""
    for (int i = 0; i < N / 64; i++) {
        s[thread + 68 * i] = 0;
    }
    C[block * 64 + thread] = 0;
    """)
    assert r.observer.several()
    assert {(r.line(x.site), x.buffer) for x in r.observer.reaches()} == {(2, "s"), (2, "t")}
    assert r.origin.meant(r.first + 1) == {"s"}


def test_uninitialised() -> None:
    r = run("C[block * 64 + thread] = s[thread];")
    assert [(f.kind, f.buffer, f.count) for f in r.faults] == [("uninitialised", "s", 128)]
    r = run("C[block * 64 + thread] = W[block * 64 + thread];")
    assert {(f.kind, f.buffer) for f in r.faults} == {("uninitialised", "W")}
    r = run("C[block * 64 + thread] = W[block * 64 + thread] = 1;\n C[block * 64 + thread] += 1;")
    assert r.faults == []


def test_an_output_is_written_wholly() -> None:
    r = run("if (thread != 7) C[block * 64 + thread] = 1;")
    assert [(f.kind, f.buffer, f.offset, f.count) for f in r.faults] == [("never-written", "C", 28, 2)]


def test_inputs_are_not_written() -> None:
    r = run("((float*)A)[block * 64 + thread] = 1; C[block * 64 + thread] = 1;")
    assert {(f.kind, f.buffer) for f in r.faults} == {("read-only", "A")}


def test_misaligned() -> None:
    body = "if (thread < 32) *(int64_t*)&C[thread * 2] = *(const int64_t*)&A[thread * 2];"
    assert run(body, blocks=1).faults == []
    r = run(body.replace("* 2];", "* 2 + 1];"), blocks=1)
    assert {(f.kind, f.buffer, f.bytes, f.offset) for f in r.faults} == {("misaligned", "A", 8, 4)}


def test_not_all_reach_a_barrier() -> None:
    r = run("C[block * 64 + thread] = 1;\n if (thread < 40) em_barrier();")
    assert r.kinds == {"deadlock"}
    assert {w[0] for w in r.where} == {2}
    assert "0-39" in r.faults[0].message


def test_different_barriers() -> None:
    r = run("""
    C[block * 64 + thread] = 1;
    if (thread < 32) {
        C[block * 64 + thread] = 2;
        em_barrier();
        C[block * 64 + thread] = 3;
    } else {
        em_barrier();
    }
    """)
    assert r.kinds == {"divergent-barrier"}
    assert {frozenset(w) for w in r.where} == {frozenset({4, 7})}


COPY = """
    static const EmInstr copy = {"copy", 1, copy_one};
    const Copy given = {s + thread, A + thread};
    em_part(given.to, given.from, 4, __builtin_return_address(0));
    em_asynchronous(&copy, &given, sizeof given, EM_GROUP, __builtin_return_address(0));
    em_commit(EM_GROUP);
    WAIT
    BARRIER
    C[block * 64 + thread] = s[63 - thread];
"""


@pytest.mark.parametrize(
    ("wait", "barrier", "kind"),
    [("wait", "barrier", ""), ("", "barrier", "in-flight"), ("wait", "", "race"), ("", "", "in-flight")],
)
def test_asynchronous_copies(wait: str, barrier: str, kind: str) -> None:
    body = COPY.replace("WAIT", "em_wait(EM_GROUP, 0);" if wait else "").replace("BARRIER", "em_barrier();" if barrier else "")
    r = run(body)
    if not kind:
        assert r.faults == []
        return
    assert kind in r.kinds
    fault = next(f for f in r.faults if f.kind == kind)
    assert fault.buffer == "s"
    if kind == "in-flight":
        assert fault.other_access == UNDER_WAY


def test_source_overwritten_while_copied() -> None:
    body = """
    W[block * 64 + thread] = 1;
    em_barrier();
    """ + COPY.replace("A + thread", "W + block * 64 + thread")
    late = "em_barrier(); W[block * 64 + 63 - thread] = 2; em_barrier(); em_wait(EM_GROUP, 0);"
    assert run(body.replace("WAIT", "em_wait(EM_GROUP, 0);").replace("BARRIER", "em_barrier();")).faults == []
    r = run(body.replace("WAIT", late).replace("BARRIER", "em_barrier();"))
    assert ("in-flight", "W") in {(f.kind, f.buffer) for f in r.faults}


def test_counts() -> None:
    r = run("""
    s[thread] = A[block * 64 + thread];
    em_barrier();
    C[block * 64 + thread] = s[2 * thread % 64] + s[0];
    C[block * 64 + 8 * thread % 64 + thread / 8] = s[32 * (thread % 2)] + B[2 * thread];
    """)
    assert r.observer.launches()[0].barriers == 2
    load, store = r.site(1, "A"), r.site(1, "s")
    assert (load.bytes, load.requests, load.transactions, load.least_transactions) == (512, 4, 16, 16)
    assert (store.bytes, store.requests, store.transactions, store.least_transactions) == (512, 4, 4, 4)
    scattered = r.site(4, "C")
    assert (scattered.requests, scattered.transactions, scattered.least_transactions) == (4, 32, 16)
    strided = r.site(4, "B")  # every second element: half of each sector is of use
    assert (strided.transactions, strided.least_transactions) == (32, 16)
    ways = {(s.transactions, s.least_transactions) for s in r.observer.sites() if s.shared and r.line(s.site) == 3}
    assert ways == {(8, 4), (4, 4)}  # two words of a bank; all lanes at one word
    two = next(s for s in r.observer.sites() if s.shared and r.line(s.site) == 4)
    assert (two.transactions, two.least_transactions) == (8, 4)  # words 0 and 32 are of one bank


@pytest.mark.parametrize(("stride", "rounds", "least"), [(4, 1, 1), (8, 2, 1), (32, 8, 1), (0, 1, 1)])
def test_wide_accesses_go_by_groups_of_lanes(stride: int, rounds: int, least: int) -> None:
    """16 bytes a lane: eight lanes at once, which together can ask for a word of each bank."""
    r = run(
        f"""
    s[thread] = 1;
    em_barrier();
    C[thread] = 0;
    em_barrier();
    if (thread < 8) *(vec*)&C[4 * thread] = *(vec*)&s[{stride} * thread];
    """,
        blocks=1,
        threads=256,
    )
    assert r.faults == []
    (load,) = (x for x in r.observer.sites() if x.shared and x.access == LOAD)
    assert (load.accesses, load.bytes, load.requests) == (8, 128, 1)
    assert (load.transactions, load.least_transactions) == (rounds, least)


def test_counting_is_on_request() -> None:
    r = run(REVERSE, count=False)
    assert (r.observer.sites(), r.observer.launches(), r.observer.instrs()) == ([], [], [])


def test_inlined_functions_show_their_call() -> None:
    r = run("C[block * 64 + thread] = twice(s + thread);")
    assert {f.kind for f in r.faults} == {"uninitialised"}
    assert r.where == [(1, 0)]
