"""Instructions that come for several types, and what an extending device changes of those it inherits."""

from __future__ import annotations

import pytest
from andiron.dsl.device import Device
from andiron.dsl.devices.resolve_device import resolve_devices
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.syntax import DeviceDecl
from andiron.dsl.text.format import format_source
from andiron.dsl.text.parser import parse_text

HEAD = """device d:
    level warp: open, siblings nothing
    level thread: shaped, siblings lockstep, width 4
    memory global of warp: 1 GB/s
    memory register of thread: 8 x 4 B
    matrix f16 3 GFLOP/s
"""

COPY = """    instr load on thread in load for KINDS:
        op (S: T[N]) -> (D: T[N]):
            D[i] = S[i]
        S in global at (r): i = r
        D in register at (r): i = r
        emit cuda: "T T8 N NN {N}"
"""

MUL = """    instr mul on thread for f16, bf16:
        op (A: T[2], C: f32[2]):
            C[i] += f32(A[i]) * f32(T(A[i]))
        A in register at (r): i = r
        C in register at (r): i = r
        cost 2 cycles, latency 5
"""


def resolve(text: str) -> dict[str, Device]:
    return resolve_devices([d for d in parse_text(text).declarations if isinstance(d, DeviceDecl)], {})


def test_one_for_each_type_and_count() -> None:
    found = resolve(HEAD + COPY.replace("KINDS", "f32 x 4, f16 x 8"))["d"].instrs
    assert [(i.name, i.family) for i in found] == [("load_f32x4", "load"), ("load_f16x8", "load")]
    assert [[(o.dtype.name, o.shape) for o in i.operands] for i in found] == [[("f32", (4,))] * 2, [("f16", (8,))] * 2]
    assert [dict(i.emits)["cuda"] for i in found] == ["f32 T8 4 NN {4}", "f16 T8 8 NN {8}"]


def test_every_type_that_fills_so_many_bytes() -> None:
    found = resolve(HEAD + COPY.replace("KINDS", "16 B"))["d"].instrs
    assert {i.operands[0].shape[0] * i.operands[0].dtype.bytes for i in found} == {16}
    names = {i.operands[0].dtype.name for i in found}
    assert {"f64", "f32", "tf32", "bf16", "f8e4m3", "u8"} < names
    assert not {"bool", "i4"} & names
    assert "f64" not in {i.operands[0].dtype.name for i in resolve(HEAD + COPY.replace("KINDS", "4 B"))["d"].instrs}


def test_types_without_a_count() -> None:
    found = resolve(HEAD + MUL)["d"].instrs
    assert [i.name for i in found] == ["mul_f16", "mul_bf16"]
    assert [i.operands[0].dtype.name for i in found] == ["f16", "bf16"]


@pytest.mark.parametrize("kinds", ["f32 x 4, f16 x 8", "16 B", "f32", "8 B, f32 x 4"])
def test_formatted_as_written(kinds: str) -> None:
    text = HEAD + COPY.replace("KINDS", kinds).replace("T[N]", "T[4]")
    assert format_source(text).strip() == text.strip()
    assert parse_text(format_source(text)) == parse_text(text)


def test_an_extending_device_changes_costs_only() -> None:
    text = HEAD + MUL + "device e extends d:\n    cost mul_f16 8 cycles, latency mul_bf16 9, clock 1 GHz\n"
    d, e = resolve(text)["d"], resolve(text)["e"]
    assert [(i.cycles, i.latency) for i in d.instrs] == [(2, 5), (2, 5)]
    assert [(i.cycles, i.latency) for i in e.instrs] == [(8, 5), (2, 9)]
    assert [i.operands for i in e.instrs] == [i.operands for i in d.instrs]
    assert e.limits == (("matrix f16", 3e9), ("clock", 1e9))


def test_an_extending_device_lacks_what_it_says() -> None:
    e = resolve(HEAD + MUL + "device e extends d:\n    without mul_f16, without matrix f16\n")["e"]
    assert [i.name for i in e.instrs] == ["mul_bf16"]
    assert e.limits == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + COPY.replace("KINDS", "f32 x 4, f32 x 4"), "`load_f32x4` is declared twice"),
        (HEAD + MUL + "    cost mul_f32 3 cycles\n", "no instruction `mul_f32`"),
        (HEAD + MUL + "    cost mul_f16 3 cycles, cost mul_f16 4 cycles\n", "the cycles is stated twice"),
        (HEAD + MUL + "    cost mul_f16 3 GHz\n", "should be a plain number"),
        (HEAD + MUL + "device e extends d:\n    without mul_f32\n", "the device extended has no `mul_f32`"),
        (HEAD + COPY.replace("KINDS", "16 s"), "an amount of bytes"),
        (HEAD + COPY.replace("KINDS", "f33 x 4"), "f33"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    with pytest.raises((UserError, UserErrors)) as e:
        resolve(text)
    assert says in str(e.value)
