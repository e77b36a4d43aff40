"""A copy fills what is outside of a tensor with one value."""

import andiron
import numpy as np
import pytest
from andiron.dsl.errors import UserError

OP = "op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = min(X[i - 1 else {0}], 1.0 / X[i - 1 else {1}])\n"
SCHEDULE = "\nschedule s for f:\n    tile i: 2 -> core\n    move X -> l1\n    compute\n"


@pytest.mark.parametrize("values", [("0.0", "-0.0"), ("0.0", "1.0")])
def test_two_values_need_two_copies(values):
    """Zeros of different signs are two."""
    with pytest.raises(UserError, match="read with different `else` values"):
        andiron.compile(OP.format(*values) + SCHEDULE, schedule="s", target="cpu:generic")


@pytest.mark.parametrize("value", ["0.0", "-0.0", "nan"])
def test_one_value_is_copied(value):
    assert andiron.compile(OP.format(value, value) + SCHEDULE, schedule="s", target="cpu:generic").report.launches == 1


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ("X[i - 1 else i]", "`i`"),
        ("X[i - 1 else Z[i]]", "`i`"),
        ("X[i - 1 else where(i > 2, 1, N)]", "`i`"),
        ("X[i - 1 else N]", ""),
    ],
)
@pytest.mark.parametrize(
    ("target", "lines"),
    [
        ("cpu:generic", "tile i: 2 -> core / move X -> l1"),
        ("sm_80", "tile i: 32 -> block / move X -> shared / tile i: 1 -> thread"),
    ],
)
def test_a_value_that_depends_on_an_index_is_not_copied(read, said, target, lines):
    text = f"op f[N](X: f32[N], Z: f32[N]) -> (Y: f32[N]):\n    Y[i] = {read}\n\nschedule s for f:\n"
    text += "".join(f"    {line.strip()}\n" for line in [*lines.split("/"), "compute"])
    target = target if ":" in target else f"emulate:{target}"
    if not said:
        assert andiron.compile(text, schedule="s", target=target).report.launches == 1
        return
    with pytest.raises(UserError, match=f"an `else` value that depends on {said}"):
        andiron.compile(text, schedule="s", target=target)


@pytest.mark.parametrize(
    ("target", "level"), [("cpu:generic", "tile i: 8 -> core"), ("emulate:sm_80", "tile i: 8 -> block / tile i: 1 -> thread")]
)
def test_registers_hold_no_value_that_depends_on_another_index(target, level):
    """The copy has the elements of `i`, and the value is another one for each `j`."""
    lines = [*level.split("/"), "tile i: 1", "move X -> register", "tile j: 1", "compute"]
    text = "op f[M, N](X: f32[M], W: f32[N]) -> (Y: f32[M, N]):\n    Y[i, j] = X[i - 1 else j] * W[j]\n\nschedule s for f:\n"
    with pytest.raises(UserError, match="an `else` value that depends on `j`"):
        andiron.compile(text + "".join(f"    {x.strip()}\n" for x in lines), schedule="s", target=target)


def test_a_convolution_whose_padding_is_a_row_number():
    """Without a schedule, where nothing is copied."""
    sizes = {"N": 1, "C": 3, "H": 6, "W": 7, "O": 4, "R": 3, "S": 3}
    text = (
        "op f[N, C, H, W, O, R, S](I: f32[N, C, H, W], F: f32[O, C, R, S]) -> (Y: f32[N, O, H, W]):\n"
        "    Y[n, o, p, q] = sum(c, r, s) I[n, c, p + r - 1, q + s - 1 else p] * F[o, c, r, s]\n"
    )
    rng = np.random.default_rng(1)
    image, taps = (rng.integers(-3, 4, [sizes[x] for x in s]).astype(np.float32) for s in ("NCHW", "OCRS"))
    wanted = np.zeros((1, 4, 6, 7), np.float32)
    for p, q, r, s in np.ndindex(6, 7, 3, 3):
        y, x = p + r - 1, q + s - 1
        at = image[0, :, y, x] if 0 <= y < 6 and 0 <= x < 7 else np.full(3, p, np.float32)
        wanted[0, :, p, q] += taps[:, :, r, s] @ at
    found = andiron.compile(text, target="emulate:sm_80", sizes=sizes, tune=0)(image, taps)
    np.testing.assert_array_equal(np.asarray(found), wanted)
