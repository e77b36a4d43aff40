"""Instructions that come for several types, and what an extending device changes of those it inherits."""

from __future__ import annotations

import pytest
from andiron.dsl.device import Device
from andiron.dsl.devices.resolve_device import resolve_devices
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.syntax import DeviceDecl
from andiron.dsl.text.format import format_source
from andiron.dsl.text.parser import parse_text
from andiron.dsl.text.print_node import format_node

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

VALUES = """    instr load_${SIZE}_${T} on thread in load:
        for f32 x 2: SIZE = 8, V = uint2, W = 8, C = 0.5, ACC = f64, L = 3
        for f16 x 2: SIZE = half, V = "uint32_t const", W = 4, C = 2, ACC = f32, L = 0
        op (S: T[W/4 * N]) -> (D: T[W/4 * N]):
            D[i] = T(ACC(S[i]))
        S in global at (r): i = W*r - (W - 1)*r
        D in register at (r): i = r
        emit cuda: "V v${W}[W] = T(s) WW {%1, ..., %${L + 1}} f2(v[0]), ..., f2(v[L]) ${2*W/4 - 1}"
        align S W B, cost C cycles
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


def test_values_of_each_kind() -> None:
    single, half = resolve(HEAD + VALUES)["d"].instrs
    assert [i.name for i in (single, half)] == ["load_8_f32", "load_half_f16"]
    assert [(i.cycles, i.operand("S").alignment, i.operand("S").shape) for i in (single, half)] == [
        (0.5, 8, (4,)),
        (2, 4, (2,)),
    ]
    assert dict(single.emits)["cuda"] == "uint2 v8[8] = f32(s) WW {%1, %2, %3, %4} f2(v[0]), f2(v[1]), f2(v[2]), f2(v[3]) 3"
    assert dict(half.emits)["cuda"] == "uint32_t const v4[4] = f16(s) WW {%1} f2(v[0]) 1"
    assert [str(i.statement.value.dtype) for i in (single, half)] == ["f32", "f16"]


def test_a_name_with_braces_of_type_and_count() -> None:
    found = resolve(HEAD + COPY.replace("instr load", "instr ${T}_of_${N * 2}").replace("KINDS", "f32 x 4, f16 x 8"))[
        "d"
    ].instrs
    assert [i.name for i in found] == ["f32_of_8", "f16_of_16"]


def test_sequences_are_spelt_out_where_there_are_no_kinds() -> None:
    text = HEAD + COPY.replace(" for KINDS", "").replace("T[N]", "f32[4]").replace(
        "T T8 N NN {N}", "f(x, ..., 3) {%0, ..., %2};"
    )
    (found,) = resolve(text)["d"].instrs
    assert dict(found.emits)["cuda"] == "f(x, ..., 3) {%0, %1, %2};"


@pytest.mark.parametrize("kinds", ["f32 x 4, f16 x 8", "16 B", "f32", "8 B, f32 x 4"])
def test_formatted_as_written(kinds: str) -> None:
    text = HEAD + COPY.replace("KINDS", kinds).replace("T[N]", "T[4]")
    assert format_source(text).strip() == text.strip()
    assert parse_text(format_source(text)) == parse_text(text)


def test_lines_of_kinds_are_formatted_as_written() -> None:
    assert format_source(HEAD + VALUES) == HEAD + VALUES
    tree = parse_text(HEAD + VALUES)
    assert parse_text(format_node(tree)) == tree
    assert 'for f16 x 2: SIZE = half, V = "uint32_t const", W = 4, C = 2, ACC = f32, L = 0' in format_node(tree)


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
        (HEAD + VALUES.replace("SIZE = half", "SIZE = 8").replace("_${T}", ""), "`load_8` is declared twice"),
        (HEAD + VALUES.replace("SIZE = half", 'SIZE = "a b"'), "would be `load_a b_f16`, which is no name"),
        (HEAD + VALUES.replace("${L + 1}", "${" + "9" * 4000 + "*" + "9" * 4000 + "}"), "has no value"),
        (HEAD + VALUES.replace("W = 4", "W = 4.5"), "`W` is 4.5, and a whole number stands here"),
        (HEAD + VALUES.replace("L = 0", "L = few"), "`${L + 1}` calculates, but `L` is few"),
        (HEAD + VALUES.replace("${L + 1}", "${L +}"), "`${L +}` has no value"),
        (HEAD + VALUES.replace("${L + 1}", "${L / 0}"), "`${L / 0}` has no value"),
        (HEAD + VALUES.replace("SIZE = half", "i = half").replace("SIZE", "i"), "`i` is an index"),
        (HEAD + VALUES.replace("L = 0", "L = 99999"), "more than 1024 items"),
        (HEAD + COPY.replace(" for KINDS", "").replace("load on", "load_${X} on"), "`${X}` stands for nothing"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    with pytest.raises((UserError, UserErrors)) as e:
        resolve(text)
    assert says in str(e.value)
