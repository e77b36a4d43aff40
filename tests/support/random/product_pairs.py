"""Random products of products, as two layers of a network: what is computed between them, and how operands lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

# of a result of the first product; v has a number for each column
# what limits the first product and the second one: elements, or terms of either
DOMAINS = (
    *(("H", "f <= m"), ("H", "f >= m - 5, f < m + 30"), ("Y", "f <= 2*m + 3"), ("Y", "f <= n + 20"), ("X", "k <= f")),
    *(("X", "k <= m"), ("Y", "f >= 10")),
)
ACTIVATIONS = ("{}", "max({}, 0.0)", "{} + v[f]", "silu({} + v[f])", "sigmoid({})", "gelu({})")


def product_pair(seed: int, dtypes: Sequence[str] = ("f16", "f16", "bf16", "f32")) -> str:
    """The op, whose sizes are M, K, F and N, with batches B in front where it has them. One of three has a domain."""
    rng, other = Random(seed), Random(f"domain {seed}")
    where = dict.fromkeys("HXY", "") | dict([other.choice(DOMAINS)] if other.random() < 0.35 else [])
    limits = {name: f" where {x}" if x else "" for name, x in where.items()}
    dtype, rows = rng.choice(dtypes), rng.choice(("m", "m", "m", "b, m"))
    batch = "B, " if len(rows) > 1 else ""
    x = rng.choice((f"{rows}, k", f"{rows}, k", f"{rows[:-1]}k, m"))
    w1, w2 = rng.choice(("k, f", "f, k")), rng.choice(("f, n", "n, f"))
    first = rng.choice(ACTIVATIONS).format(f"(sum(k{limits['X']}) f32(X[{x}]) * f32(W1[{w1}]))")
    stored = rng.random() < 0.5 and dtype != "f32"  # H has the type that the second product multiplies, converted
    made, read = (f"{dtype}({first})", "H[{}, f]") if stored else (first, dtype + "(H[{}, f])")
    value = f"sum(f{limits['Y']}) f32({read.format(rows)}) * f32(W2[{w2}])"
    value = f"({value}) * 0.5 + R[{rows}, n]" if rng.random() < 0.3 else value
    out = rng.choice(("f32", dtype))
    inputs = ", ".join(f"{name}: {dtype}[{i.upper()}]" for name, i in (("X", x), ("W1", w1), ("W2", w2)))
    text = (
        f"op f[{batch}M, K, F, N]({inputs}, v: f32[F], R: f32[{batch}M, N]) -> (Y: {out}[{batch}M, N]):\n"
        f"    H[{rows}, f]{limits['H']} = {made}\n"
        f"    Y[{rows}, n] = {out}({value})\n"
    )
    return text


def sizes_of_products(seed: int) -> Iterator[dict[str, int]]:
    """Odd sizes, 0 and 1."""
    rng = Random(seed)
    yield {"B": 2, "M": rng.randint(2, 90), "K": rng.randint(2, 40), "F": rng.randint(33, 140), "N": rng.randint(2, 40)}
    yield {"B": 1, "M": 1, "K": 1, "F": 1, "N": 1}
    some = {"B": 3, "M": 5, "K": 3, "F": rng.choice((16, 7)), "N": 2}
    yield some | {rng.choice(("B", "M", "K", "F", "N")): 0}
