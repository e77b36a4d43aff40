"""Division by a reciprocal that is there has the bits of `/` (docs/decisions/division.md)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from andiron.codegen.emit.c.c_expr import Helper
from andiron.codegen.emit.cpu.cpp_prelude import prelude

STEP = 257  # of the significands of divisors: 32 thousand of them. All were tried for the decision

# d and x have 24 bits, a midpoint between quotients M has 25: X 2^s - M Y = k with a small k is a quotient next to one.
MAIN = """
#include <cstdio>
#include <stdint.h>
#define m_inline static inline __attribute__((always_inline, unused))
%s
static long wrong = 0, tried = 0;
static void check(float x, float d) {
    volatile float divisor = d;
    const float expected = x / divisor, r = m_reciprocal(d), got = m_divide_by(x, d, r);
    tried++;
    if (bits(got) == bits(expected) || (got != got && expected != expected)) return;
    if (wrong++ < 5) printf("%%a / %%a: %%a, not %%a\\n", x, d, got, expected);
}
static void next_to_midpoints(uint32_t Y) {
    const int t = __builtin_ctz(Y);
    uint32_t inverse = Y >> t;
    for (int i = 0; i < 5; i++) inverse *= 2 - (Y >> t) * inverse;
    for (int s = 24; s <= 25; s++)
        for (int k = -8; k <= 8; k++) {
            if (k == 0 || t > 3 || k %% (1 << t) != 0) continue;
            const uint32_t period = 1u << (s - t);
            for (uint64_t M = (uint32_t)-(k / (1 << t)) * inverse & (period - 1); M < 1u << 25; M += period) {
                const int64_t X = ((int64_t)M * Y + k) >> s;
                const int64_t first = s == 25 ? 1 << 23 : Y, end = s == 25 ? Y : 1 << 24;
                if (M >= 1u << 24 && M %% 2 == 1 && X >= first && X < end) check(X * 0x1p-23f, Y * 0x1p-23f);
            }
        }
}
int main() {
    for (uint32_t Y = 1u << 23; Y < 1u << 24; Y += %d) next_to_midpoints(Y);
    // all exponents, 0, subnormal numbers, infinities and NaN
    const uint32_t significands[] = {0, 1, 2, 0x2aaaab, 0x400000, 0x5a5a5a, 0x7ffffe, 0x7fffff};
    for (uint32_t e = 0; e < 512; e++)
        for (uint32_t m : significands)
            for (uint32_t f = 0; f < 512; f += f %% 256 > 4 && f %% 256 < 250 ? 3 : 1)
                for (uint32_t n : significands) check(flt(e << 23 | m), flt(f << 23 | n));
    printf("%%ld of %%ld are wrong\\n", wrong, tried);
    return wrong != 0 || tried < 6000000;
}
"""


def test_quotients_are_those_of_a_division(tmp_path: Path) -> None:
    source, program = tmp_path / "f.cpp", tmp_path / "f"
    helpers = prelude([Helper("m_reciprocal", "f32"), Helper("m_divide_by", "f32")], None, "", "emulate")
    source.write_text(MAIN % (helpers, STEP))
    subprocess.run(["g++", "-std=c++17", "-O2", "-ffp-contract=off", "-mfma", str(source), "-o", str(program)], check=True)
    out = subprocess.run([str(program)], capture_output=True, text=True)
    assert out.returncode == 0, out.stdout
