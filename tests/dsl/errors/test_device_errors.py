"""One case per mistake in a device: the message names the real cause."""

from __future__ import annotations

import pytest
from andiron.dsl.devices.resolve_device import resolve_devices
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.syntax import DeviceDecl
from andiron.dsl.text.parser import parse_text

HEAD = """device d:
    level grid: open, siblings nothing
    level warp: shaped, siblings barrier
    level thread: shaped, siblings lockstep, at most 4 units, width 4
    memory global of grid: 1 GB/s
    memory shared of warp: 1 KiB, in global
    memory register of thread: 8 x 4 B
"""

INSTR = """    instr copy on warp:
        op (S: f32[8]) -> (D: f32[8]):
            D[i] = S[i]
        S in shared at (lane, r): i = 2*lane + r
        D in register at (lane, r): i = 2*lane + r
"""


def resolve(text: str):
    return resolve_devices([d for d in parse_text(text).declarations if isinstance(d, DeviceDecl)], {})


def test_the_plain_text_is_right():
    (instr,) = resolve(HEAD + INSTR)["d"].instrs
    assert [o.coords[1].hi for o in instr.operands] == [1, 1]


PLACE_S = "S in shared at (lane, r): i = 2*lane + r"
PLACE_D = "D in register at (lane, r): i = 2*lane + r"


def changed(old: str, new: str) -> str:
    assert old in HEAD + INSTR
    return (HEAD + INSTR).replace(old, new)


TWICE = changed("D[i] = S[i]", "D[i, j] = S[i, j] + S[j, i]").replace("f32[8]", "f32[4, 4]")
THREE = "    level thread: shaped, siblings lockstep, at most 3 units, width 3"
STRANDS = changed(THREE.replace("3", "4"), f"    level strand: shaped, siblings barrier, at most 4 units\n{THREE}")
STRANDS = STRANDS.replace("(lane, r): i = 2*lane + r", "(lane): i = lane")
SIX = (HEAD + INSTR).replace("at most 4 units, width 4", "24 bytes").replace("f32[8]", "f32[6]")
SIX = SIX.replace("(lane, r): i = 2*lane + r", "(lane): i = lane")

CASES = [
    ("unknown-parent", "device d extends q:\n    clock 1 GHz\n", "no device `q`"),
    ("extends-cycle", "device a extends b: clock 1 GHz\ndevice b extends a: clock 1 GHz\n", "a extends b extends a"),
    ("extends-cycle", "device a extends a: clock 1 GHz\n", "a extends a"),
    ("duplicate-item", "device a: clock 1 GHz\ndevice a: clock 1 GHz\n", "device `a` is declared twice"),
    ("duplicate-item", HEAD + "    memory shared of warp: 2 KiB\n", "memory `shared` is declared twice"),
    ("duplicate-item", HEAD + "    level warp: open\n", "level `warp` is declared twice"),
    ("duplicate-item", HEAD + INSTR + INSTR, "instruction `copy` is declared twice"),
    ("duplicate-item", HEAD + INSTR + '        emit cpp: "a"\n        emit cpp: "b"\n', "the text for cpp is given twice"),
    ("bad-fact", changed("level grid: open", "level grid: finite 2"), "a program runs on one `grid`"),
    ("bad-fact", changed("level grid: open", "level grid: shaped"), "a program runs on one `grid`"),
    ("bad-fact", changed("level grid: open", "level grid: open, at most 3 units"), "a program runs on one `grid`"),
    ("unknown-level", changed("global of grid", "global of grit"), "no level `grit` to share `global`"),
    ("unknown-level", changed("copy on warp", "copy on wrap"), "no level `wrap` to execute `copy`"),
    ("unknown-memory", changed("in global", "in globe"), "no memory `globe` behind `shared`"),
    ("unknown-memory", changed("S in shared", "S in share"), "no memory `share`"),
    ("argument-memory", changed("global of grid", "global of warp"), "so it belongs to `grid`, not to `warp`"),
    ("bad-fact", changed("1 KiB, in", "1 KiB, holes 3, in"), "`holes 3` is not a fact of a memory"),
    ("bad-fact", changed("1 KiB, in", "1 KiB, banks 0 x 4 B, in"), "`0 x 4 B` has a count of 0"),
    ("bad-fact", HEAD + INSTR + "        align S 3 B\n", "`3 B` is no alignment"),
    ("bad-fact", HEAD + "    clock 0 GHz\n", "`0 GHz` should be more than 0"),
    ("bad-fact", changed("1 KiB, in", "1 KiB, 0 GB/s, in"), "`0 GB/s` should be more than 0"),
    ("bad-fact", HEAD + "    memory file of thread: 0 x 4 B\n", "`0 x 4 B` has a count of 0"),
    ("bad-fact", changed("1 KiB, in", "1 KiB, 2 KiB, in"), "the capacity is stated twice"),
    ("bad-fact", changed("siblings barrier", "siblings friends"), "`siblings friends` is not a fact of a level"),
    ("bad-fact", changed("at most 4 units", "at most 4 cats"), "cats is no level"),
    ("bad-fact", changed("at most 4 units", "at most 0 units"), "whole number from 1 on"),
    ("bad-fact", HEAD + "    clock\n", "a figure is a name and a number"),
    ("bad-fact", HEAD + "    clock 1 GHz, clock 2 GHz\n", "`clock` is stated twice"),
    ("bad-fact", HEAD + INSTR + "        cost 4 apples\n", "`cost 4 apples` is not a fact of an instruction"),
    ("bad-fact", HEAD + INSTR + "        latency 4, latency 5\n", "`latency` is stated twice"),
    ("bad-fact", HEAD + INSTR + "        await grup\n", "nothing is awaited by `grup`"),
    ("unknown-unit", changed("1 KiB", "1 GHz"), "`1 GHz` should be in B"),
    ("unknown-unit", changed("1 GB/s", "1 GB/s, transaction 3"), "`3` should be in B"),
    ("unknown-unit", changed("1 GB/s", "1 GFLOP/s"), "should be in B/s"),
    ("incomplete-level", changed("open, siblings nothing", "open"), "level `grid` does not say siblings"),
    ("incomplete-level", changed("open, siblings nothing", "siblings nothing"), "does not say open, shaped or finite"),
    ("instruction-body", changed("D[i] = S[i]", "D[i] = S[i]\n            D[i] = S[i]"), "2 statements; an instruction is one"),
    ("instruction-body", changed("D[i] = S[i]", "D[i] = S[7 - i]"), "instructions take plain indices"),
    ("instruction-body", changed("(S: f32[8])", "(S: f32[8], T: f32[8])"), "does not use its operand `T`"),
    ("instruction-body", changed("(D: f32[8])", "(D: f32[8], T: f32[8])"), "`T` is a result that no statement assigns"),
    ("instruction-body", TWICE, "two different subscripts"),
    ("instruction-body", changed("S: f32[8]", "S: f32[0]").replace("D: f32[8]", "D: f32[0]"), "`S` has 0 elements"),
    ("instruction-body", (HEAD + INSTR).replace("f32[8]", "f32[9000000]"), "`S` has 9000000 elements"),
    ("not-affine", changed(PLACE_S, "S in shared at (lane, r): i = lane*r"), "`lane*r`"),
    ("not-affine", changed(PLACE_S, "S in shared at (lane, r): i = lane/r"), "divides by `r`"),
    ("unknown-operand", changed("D[i] = S[i]", "E[i] = S[i]"), "`E` is no operand of `copy`"),
    ("unknown-operand", HEAD + INSTR + "        Q in shared at (lane): i = lane\n", "`Q` is no operand of `copy`"),
    ("unknown-operand", HEAD + INSTR + "        align Q 16 B\n", "`Q` is no operand of `copy`"),
    ("duplicate-item", HEAD + INSTR + "        S in shared at (lane): i = lane\n", "`S` is placed twice"),
    ("missing-place", changed("        D in register at (lane, r): i = 2*lane + r\n", ""), "has no place for `D`"),
    ("unknown-coordinate", changed(PLACE_S, "S in shared at (unit): i = unit"), "`unit` is no"),
    ("missing-map-axis", changed(PLACE_S, "S in shared at (lane, r)"), "does not give the axis `i`"),
    ("unknown-map-axis", changed("S in shared at (lane, r): i", "S in shared at (lane, r): j = r, i"), "has no axis `j`"),
    ("unknown-name", changed(PLACE_S, "S in shared at (lane, r): i = 2*lane + q"), "`q`"),
    ("map-out-of-range", changed(PLACE_S, "S in shared at (lane, r): i = 3*lane + r"), "lane 2, register 2"),
    ("fragment-not-covering", changed(PLACE_S, "S in shared at (lane): i = lane"), "no lane holds S[4]"),
    ("result-replicated", changed(PLACE_D, "D in register at (lane, r): i = lane + r"), "D[1] is held"),
    ("result-replicated", changed(PLACE_D, "D in register at (r): i = r"), "every lane holds all"),
    ("too-few-lanes", changed("at most 4 units, width 4", "at most 2 units, width 4"), "takes 4 lanes"),
    ("too-few-lanes", SIX, "takes 6 lanes; units of `thread` come in powers of two"),
    ("too-few-lanes", STRANDS, "takes 8 lanes; below one warp are 4 units of `strand` x 3 units of `thread`"),
    ("unknown-type", changed("S: f32[8]", "S: f33[8]"), "f33"),
]  # fmt: skip


@pytest.mark.parametrize(("id", "text", "message"), CASES)
def test_mistake(id: str, text: str, message: str):
    with pytest.raises(UserError) as caught:
        resolve(text)
    errors = caught.value.errors if isinstance(caught.value, UserErrors) else (caught.value,)
    assert [e.id for e in errors] == [id], str(caught.value)
    assert message in errors[0].message
    assert errors[0].span is not None


def test_several_are_reported_at_once():
    with pytest.raises(UserErrors) as caught:
        resolve(changed("1 KiB, in global", "1 GHz, in globe").replace("copy on warp", "copy on wrap"))
    assert {e.id for e in caught.value.errors} == {"unknown-unit", "unknown-memory", "unknown-level"}
