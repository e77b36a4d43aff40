"""Random terms that read a statistic: accepted with a right correction exactly where numbers say that there is one."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import andiron
import numpy as np
import pytest
from andiron.codegen.algebra.follow import DoesNotFollow, Statistic, correction, is_nonnegative
from andiron.codegen.plan.group_launches import group_launches
from andiron.dsl.semantics.numerics import apply
from andiron.dsl.support.fast_replace import replace
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Cast, Const, IndexValue, Load, Value, copied

from ...support.random.counts import case_count, first_seed

CASES = case_count(40)
FIRST = first_seed()
OP = """op f[M, N](X: f64[M, N], W: f64[N], V: f64[M]) -> (Y: f64[M]):
    m[i] = max(t) abs(X[i, t])
    Y[i] = sum(t) """
PLAIN = {
    "leaves": ("X[i, t]", "W[t]", "m[i]", "m[i]", "2.0"),
    "unary": ("exp({})", "exp2({})", "sqrt({})"),
    "binary": ("({} * {})", "({} * {})", "({} / {})", "({} / {})", "({} + {})"),
}
ALL = {
    "leaves": (*PLAIN["leaves"], "V[i]"),
    "unary": (*PLAIN["unary"], "(-{})", "log({})"),
    "binary": (*PLAIN["binary"], "({} - {})", "max({}, {})", "where(V[i] > 1.5, {}, {})"),
}


def random_term(rng: Random, depth: int, parts: dict[str, tuple[str, ...]]) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(parts["leaves"])
    if rng.random() < 0.3:
        return rng.choice(parts["unary"]).format(random_term(rng, depth - 1, parts))
    return rng.choice(parts["binary"]).format(random_term(rng, depth - 1, parts), random_term(rng, depth - 1, parts))


def of(value: Value, at: dict[str, np.ndarray]) -> np.ndarray:
    match value:
        case Load():
            return at[value.tensor]
        case Const():
            return np.float64(value.value)
        case IndexValue():
            return np.float64(3)
        case Cast():
            return of(value.arg, at)
        case Apply():
            dtype = "bool" if value.dtype.kind == "bool" else "f64"
            return apply(value.fn, tuple(np.asarray(of(a, at)) for a in value.args), TYPES[dtype])
    raise TypeError(value)


def has_correction(value: Value) -> bool | None:
    """F(x, a) F(x0, a0) = F(x, a0) F(x0, a) for random numbers; None where too few of them are numbers."""
    rng = np.random.default_rng(5)

    def drawn() -> dict[str, np.ndarray]:
        return {n: rng.uniform(0.6, 2.5, 400) for n in ("X", "W")}

    row, x, other = {"V": rng.uniform(0.6, 2.5, 400)}, drawn(), drawn()
    a, b = ({"m": rng.uniform(0.6, 2.5, 400)} for _ in range(2))
    with np.errstate(all="ignore"):
        one = of(value, row | x | a) * of(value, row | other | b)
        two = of(value, row | x | b) * of(value, row | other | a)
    some = np.isfinite(one) & np.isfinite(two) & (np.abs(one) > 1e-250)
    if np.count_nonzero(some) < 100:
        return None
    return bool(np.allclose(one[some], two[some], rtol=1e-6, atol=0))


def followed(text: str) -> tuple[Value, Value | None]:
    op = andiron.loads(OP + text + "\n").ops["f"]
    launches = [w for launch in group_launches(op, frozenset()) for w in launch]
    m, y = (next(w for w in launches if name in w.targets) for name in "mY")
    value = copied(y.value)
    of_m = Statistic(copied(m.value), lambda load: replace(load, tensor="m~"), is_nonnegative(m.value))
    try:
        return value, correction("sum", value, {"m": of_m}, frozenset({"t"})).value
    except DoesNotFollow:
        return value, None


def terms(seed: int, parts: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, Value, Value | None, bool]]:
    """Some that read the statistic and an element, their corrections, and whether there is one."""
    rng = Random(seed)
    for text in (random_term(rng, rng.choice((2, 3, 3, 4)), parts) for _ in range(20)):
        if "m[i]" in text and ("X[" in text or "W[" in text):
            value, found = followed(text)
            exists = has_correction(value)
            if exists is not None:
                yield text, value, found, exists


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_each_correction_is_right(seed: int) -> None:
    for text, value, found, exists in terms(seed, ALL):
        if found is None:
            continue
        assert exists, text
        rng = np.random.default_rng(seed)
        at = {name: rng.uniform(0.6, 2.5, 50) for name in ("X", "W", "V", "m", "m~")}
        with np.errstate(all="ignore"):
            after, before = of(value, at), of(value, at | {"m": at["m~"]})
            np.testing.assert_allclose(before * of(found, at), after, rtol=1e-6, err_msg=text)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_none_is_missed(seed: int) -> None:
    """Of positive values: a difference may be 0. What is read twice may cancel, and a choice may be the same for all."""
    for text, _, found, exists in terms(seed, PLAIN):
        if text.count("X[") <= 1 and text.count("W[") <= 1 and text.count("m[") <= 1:
            assert (found is not None) == exists, text
