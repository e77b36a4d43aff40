"""Which reductions follow another one in one pass, and by which correction: the derivation, and tests that know none of it."""

import andiron
import numpy as np
import pytest
from andiron.codegen.algebra.follow import DoesNotFollow, Statistic, correction, is_nonnegative
from andiron.codegen.plan.group_launches import group_launches
from andiron.dsl.semantics.numerics import apply
from andiron.dsl.support.fast_replace import replace
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, copied, loads

ROWS = "op f[M, N](X: f32[M, N], {inputs}) -> (Y: f32[{shape}]):\n"


def before(load):
    return replace(load, tensor=f"{load.tensor} before")


def reductions(op):
    return {w.name: w for launch in group_launches(op, frozenset()) for w in launch if w.reduction is not None}


def followed(op, name, *statistics):
    """What the reduction `name` adds up, and its correction."""
    known = reductions(op)
    w = next(x for key, x in known.items() if key.rstrip("@") == name)
    read = {}
    for s in statistics:
        a = next(x for key, x in known.items() if key.rstrip("@") == s)
        read[s] = Statistic(copied(a.value), before, is_nonnegative(a.value))
    assert w.reduction is not None
    return copied(w.value), correction(w.reduction.kind, w.value, read, frozenset(w.reduced))


def library(name):
    return andiron.loads("import std.ops.attention\nimport std.ops.norm\n").ops[name]


def op_of(body, inputs="W: f32[N]", shape="M"):
    text = ROWS.format(inputs=inputs, shape=shape) + "".join(f"    {line}\n" for line in body.splitlines())
    return andiron.loads(text).ops["f"]


MAXIMUM = "m[i] = max(t) X[i, t]\n"
LARGEST = "a[i] = max(t) abs(X[i, t])\n"
SUM_OF_SQUARES = "n[i] = sum(t) X[i, t] * X[i, t]\n"

FOLLOW = {
    "softmax": (MAXIMUM + "Y[i] = sum(t) exp(X[i, t] - m[i])", "Y", "m", "exp"),
    "with a factor of each element": (MAXIMUM + "Y[i] = sum(t) exp(X[i, t] - m[i]) * W[t]", "Y", "m", "exp"),
    "base 2": (MAXIMUM + "Y[i] = sum(t) exp2((X[i, t] - m[i]) * 1.4427)", "Y", "m", "exp2"),
    "a temperature for each row": (MAXIMUM + "Y[i] = sum(t) exp((X[i, t] - m[i]) * V[i])", "Y", "m", "exp"),
    "masked": (MAXIMUM + "Y[i] = sum(t) where(t <= i, exp(X[i, t] - m[i]), 0)", "Y", "m", "exp"),
    "rounded to f16": (MAXIMUM + "Y[i] = sum(t) f32(f16(exp(X[i, t] - m[i]))) * W[t]", "Y", "m", "exp"),
    "of a minimum": ("m[i] = min(t) X[i, t]\nY[i] = sum(t) exp(m[i] - X[i, t])", "Y", "m", "exp"),
    "a maximum of differences": (MAXIMUM + "Y[i] = max(t) (X[i, t] - m[i] + W[t])", "Y", "m", "sub"),
    "a product with a norm": (SUM_OF_SQUARES + "Y[i] = sum(t) X[i, t] * rsqrt(n[i]) * W[t]", "Y", "n", "rsqrt"),
    "a norm without overflow": (LARGEST + "r[i, t] = X[i, t] / a[i]\nY[i] = sum(t) r[i, t] * r[i, t]", "Y", "a", "mul"),
    "logarithms": (SUM_OF_SQUARES + "Y[i] = max(t) (W[t] - log(n[i]))", "Y", "n", "neg"),
}  # fmt: skip

REFUSED = {
    "variance": ("s[i] = sum(t) X[i, t]\nd[i, t] = X[i, t] - s[i]\nY[i] = sum(t) d[i, t] * d[i, t]", "s",
                 "has a factor that subtracts what the running value scales and what it does not scale alike"),
    "a difference": ("s[i] = sum(t) X[i, t]\nY[i] = sum(t) (X[i, t] - s[i])", "s",
                     "subtracts what the running value scales and what it does not scale alike"),
    "entropy": (MAXIMUM + "Y[i] = sum(t) exp(X[i, t] - m[i]) * (X[i, t] - m[i])", "m",
                "has a factor that subtracts what the running value scales and what it does not scale alike"),
    "a temperature for each column": (MAXIMUM + "Y[i] = sum(t) exp((X[i, t] - m[i]) * W[t])", "m",
                                      "shifts the running value by a factor that varies with `t`"),
    "sigmoid": (MAXIMUM + "Y[i] = sum(t) sigmoid(X[i, t] - m[i])", "m",
                "takes `sigmoid` of a running value, which neither scales nor shifts the result"),
    "quantised": (LARGEST + "Y[i] = sum(t) f32(i32(X[i, t] / a[i] * 127.0))", "a", "rounds a running value to i32"),
    "rounded": (MAXIMUM + "Y[i] = sum(t) exp(floor(X[i, t] - m[i]))", "m", "rounds a running value (`floor`)"),
    "a choice": (MAXIMUM + "Y[i] = sum(t) where(X[i, t] < m[i], X[i, t], 0)", "m", "makes a choice by the running value"),
    "a product of maxima": (MAXIMUM + "Y[i] = sum(t) exp(X[i, t] * m[i] * m[i])", "m",
                            "shifts a running value by a factor that is a running value itself"),
    "the root of a sum": ("s[i] = sum(t) X[i, t]\nY[i] = sum(t) sqrt(s[i]) * X[i, t]", "s",
                          "takes `sqrt` of what the running value scales, perhaps by a negative factor"),
    "a product": (MAXIMUM + "Y[i] = prod(t) exp(X[i, t] - m[i])", "m",
                  "is a `prod`, and partial results of that have no correction"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOLLOW)
def test_what_follows(case):
    body, name, statistic, outermost = FOLLOW[case]
    value, found = followed(op_of(body, "W: f32[N], V: f32[M]"), name, statistic)
    assert found.fn == ("add" if "max(t)" in body.splitlines()[-1] else "mul")
    assert isinstance(found.value, Apply)
    assert found.value.fn == outermost
    check_with_random_numbers(value, found, statistic)


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_follow(case):
    body, statistic, reason = REFUSED[case]
    with pytest.raises(DoesNotFollow) as refused:
        followed(op_of(body), "Y", statistic)
    assert str(refused.value) == reason


@pytest.mark.parametrize("name", ["attention", "attention_f32", "causal_attention", "grouped_attention", "attention_exp2"])
def test_the_attentions_of_the_library_follow(name):
    for reduction in ("l", "o.sum1"):
        value, found = followed(library(name), reduction, "m")
        assert isinstance(found.value, Apply)
        assert found.value.fn == ("exp2" if name.endswith("exp2") else "exp")
        check_with_random_numbers(value, found, "m")


@pytest.mark.parametrize("name", ["softmax", "softmax_f16", "log_softmax"])
def test_the_row_statistics_of_the_library_follow(name):
    value, found = followed(library(name), "total", "top")
    check_with_random_numbers(value, found, "top")


def test_two_statistics_multiply_their_corrections():
    body = MAXIMUM + "l[i] = sum(t) exp(X[i, t] - m[i])\nY[i] = sum(t) exp(X[i, t] - m[i]) / l[i] * W[t]"
    value, found = followed(op_of(body), "Y", "m", "l")
    check_with_random_numbers(value, found, "m", "l")


# ---------------------------------------------------------------- without the derivation


def evaluated(v, read):
    """The value where `read` gives the number of a load."""
    match v:
        case Load():
            return read(v)
        case Const():
            return float(v.value)
        case IndexValue():
            return 3.0
        case Cast():
            return evaluated(v.arg, read)
        case Masked():
            return evaluated(v.value, read)
        case Apply(fn="where", args=(cond, u, w)):
            return evaluated(u if evaluated(cond, read) else w, read)
        case Apply():
            args = [np.float64(evaluated(a, read)) for a in v.args]
            return float(apply(v.fn, args, TYPES["bool"] if v.dtype.kind == "bool" else TYPES["f64"], np.dtype("float64")))
    raise TypeError(v)


def numbers(rng, value, statistics, fixed=()):
    """Numbers for the loads: positive ones, as norms and maxima of absolute values are."""
    made = {(ld.tensor, ld.indices): rng.uniform(0.5, 3.0) for ld in loads(value)}
    return {k: x for k, x in made.items() if k[0] not in statistics} | dict(fixed)


def check_with_random_numbers(value, found, *statistics):
    """F(x, a') = F(x, a) * C(a, a'), and F(x, a) F(x0, a0) = F(x, a0) F(x0, a): the second without looking at C."""
    rng = np.random.default_rng(7)
    rows = {(ld.tensor, ld.indices) for ld in loads(found.value) if ld.tensor.split()[0] not in statistics}

    def drawn():
        return {s: rng.uniform(0.5, 3.0) for s in statistics}

    def f(x, now):
        return evaluated(value, lambda ld: now[ld.tensor] if ld.tensor in now else x[ld.tensor, ld.indices])

    for _ in range(50):
        a, after, a0 = drawn(), drawn(), drawn()
        x = numbers(rng, value, statistics)
        other = numbers(rng, value, statistics, {k: x[k] for k in rows})
        now = after | {f"{s} before": v for s, v in a.items()}
        factor = evaluated(
            found.value, lambda ld, now=now, x=x: now[ld.tensor] if ld.tensor in now else x[ld.tensor, ld.indices]
        )
        if found.fn == "mul":
            assert f(x, after) == pytest.approx(f(x, a) * factor, rel=1e-9)
            assert f(x, a) * f(other, a0) == pytest.approx(f(x, a0) * f(other, a), rel=1e-9)
        else:
            assert f(x, after) == pytest.approx(f(x, a) + factor, rel=1e-9, abs=1e-9)
            assert f(x, a) + f(other, a0) == pytest.approx(f(x, a0) + f(other, a), rel=1e-9, abs=1e-9)
