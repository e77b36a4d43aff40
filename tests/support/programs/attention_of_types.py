"""An attention whose operands are of any types."""

from __future__ import annotations


def attention(q: str, k: str, v: str, p: str = "f16") -> str:
    """`p`: the type of its probabilities in the product with the values."""
    return f"""op f[H, Q, T, D](q: {q}[H, Q, D], k: {k}[H, T, D], v: {v}[H, T, D]) -> (o: f16[H, Q, D]):
    s[h, i, t] = (sum(d) {_wide("q[h, i, d]", q)} * {_wide("k[h, t, d]", k)}) * 0.1
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) {_wide("p[h, i, t]" if p == "f32" else f"{p}(p[h, i, t])", p)} * {_wide("v[h, t, d]", v)}) / l[h, i]
"""


def _wide(x: str, dtype: str) -> str:
    return x if dtype == "f32" else f"f32({x})"
