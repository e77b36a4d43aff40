"""Integers of machine code that are known without any data: constants, and what is made of them.

`known` has their values by the names of registers, predicates, special registers (`SR_TID.X`) and constants (`c[0x0][0x160]`).
"""

from __future__ import annotations

import re

import numpy as np

from .instruction import Instruction

_REGISTER = re.compile(r"(U?R)(\d+)$")
_PREDICATE = re.compile(r"(!?)(U?P\d+|U?PT)$")
_INTEGERS = "S2R S2UR R2UR CS2R HFMA2 MOV UMOV IMAD UIMAD IADD3 UIADD3 VIADD SEL USEL LOP3 ULOP3 SHF USHF ISETP UISETP PLOP3"
_EXECUTED = frozenset([*_INTEGERS.split(), "UPLOP3"])
_COMPARED = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip


def taken(i: Instruction, known: dict[str, int]) -> bool | None:
    """Whether a branch is taken; None where that is not known."""
    if not i.conditional:
        return True
    if ".DIV" in i.opcode:
        return False  # for a warp whose threads have gone different ways
    found = holds(i, known)
    if i.operands.startswith("`"):
        return found
    inner = re.match(r"(!?U?P\d+), ", i.operands)
    return _both(found, _holds(inner[1], known) if inner else None)


def holds(i: Instruction, known: dict[str, int]) -> bool | None:
    """Whether its predicate holds; None where that is not known."""
    return _holds(i.predicate, known) if i.predicate else True


def execute(i: Instruction, known: dict[str, int]) -> None:
    """Sets what it computes, or forgets what it writes."""
    if i.calls:
        known.clear()
        return
    executed = holds(i, known)
    if executed is False:
        return
    operands = _operands(i)
    values = _value(i, operands, known) if executed and i.base in _EXECUTED else None
    for name in _written(i, operands):
        known.pop(name, None)
    for name, value in (values or {}).items():
        if value is not None:
            known[name] = value


def _both(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def _holds(predicate: str, known: dict[str, int]) -> bool | None:
    match = _PREDICATE.match(predicate)
    if not match:
        return None
    value = 1 if match[2] in ("PT", "UPT") else known.get(match[2])
    return None if value is None else bool(value) != bool(match[1])


def _operands(i: Instruction) -> list[str]:
    return [x.replace(".reuse", "") for x in i.operands.split(", ")] if i.operands else []


def _written(i: Instruction, operands: list[str]) -> list[str]:
    """One too many costs nothing but what could be known."""
    if i.base == "R2P":
        return [f"P{n}" for n in range(7)]
    written = []
    for name in operands[:2]:
        if match := _REGISTER.match(name):
            written += [f"{match[1]}{int(match[2]) + k}" for k in range(_results(i))]
        if not _PREDICATE.match(name):
            break
        written.append(name)
    if i.base in ("IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD"):  # their carries follow the result
        for name in operands[1:3]:
            if re.match(r"U?P\d", name):
                written.append(name)
    return written


def _results(i: Instruction) -> int:
    """Registers of a result."""
    parts = i.opcode.split(".")
    if i.base in ("HMMA", "IMMA"):
        return 4 if "F32" in parts or i.base == "IMMA" else 2
    if i.base == "LDSM":
        return next((int(p) for p in parts if p in ("2", "4")), 1)
    if "WIDE" in parts or "64" in parts or i.base.startswith("D") or (i.base == "CS2R" and "32" not in parts):
        return 2
    return 4 if "128" in parts else 1


def _value(i: Instruction, operands: list[str], known: dict[str, int]) -> dict[str, int | None] | None:
    """Of integer instructions of 32 bits; None for others."""
    base = i.base.removeprefix("U") if i.base not in ("UP2UR",) else i.base
    parts = i.opcode.split(".")

    def read(name: str) -> int | None:
        if re.match(r"-?U?RZ$", name) or name == "SRZ":
            return 0
        if name.startswith(("c[", "SR_")):
            return known.get(name)
        if match := re.match(r"(-|~)?(U?R\d+)$", name):
            value = known.get(match[2])
            return value if value is None or not match[1] else -value if match[1] == "-" else ~value
        if re.match(r"-?0x[0-9a-f]+$", name):
            return int(name, 16)
        return None

    def made(value: int | None) -> dict[str, int | None]:
        return {operands[0]: value if value is None else _signed(value)}

    carries = [x for x in operands[1:3] if re.match(r"U?P\d$", x)] if base in ("IADD3", "LEA", "IMAD") else []
    args = [read(x) for x in operands[1 + len(carries) :]]
    if not args:
        return None
    if base in ("S2R", "S2UR"):
        return made(args[0])
    if base == "CS2R" and operands[1] == "SRZ":
        return dict.fromkeys(_written(i, operands), 0)
    if base == "HFMA2" and operands[1:3] == ["-RZ", "RZ"]:  # it loads a constant: two halves, the upper one first
        return made(int(np.array([float(x) for x in operands[:2:-1]], np.float16).view(np.int32)[0]))
    if base == "R2UR":
        return made(args[-1])
    if base == "MOV" or (base == "IMAD" and "MOV" in parts):
        return made(args[-1] if base == "IMAD" else args[0])
    if base == "VIADD":
        return made(None if None in args else sum(args))  # type: ignore[arg-type]
    if base == "IADD3" and "X" not in parts and len(args) == 3:
        total = None if None in args else sum(x & 0xFFFFFFFF for x in args)  # type: ignore[operator]
        return made(total) | dict.fromkeys(carries, None if total is None else total >> 32)
    if base == "IADD3" and len(args) >= 4 and not carries and None not in args[:3]:
        carry = _holds(operands[4], known)
        return made(None if carry is None else sum(args[:3]) + carry)  # type: ignore[arg-type]
    if base == "IMAD" and len(parts) <= 2 and parts[-1] in ("IMAD", "UIMAD", "U32", "IADD") and len(args) == 3:
        return made(args[0] * args[1] + args[2]) if None not in args else None  # type: ignore[operator]
    if base == "IMAD" and "SHL" in parts and None not in args:
        return made(args[0] * args[1] + args[2])  # type: ignore[operator]
    if base == "SEL":
        which = _holds(operands[-1], known)
        return made(None if which is None else args[0] if which else args[1])
    if base in ("LOP3", "ULOP3") and _REGISTER.match(operands[0]) and len(args) >= 4 and args[3] is not None:
        return made(_lookup(args[0], args[1], args[2], args[3]))
    if base == "SHF" and args[0] == 0 and args[1] is not None and args[2] is not None and {"R", "HI"} & set(parts):
        return made((args[2] if "S32" in parts else args[2] & 0xFFFFFFFF) >> args[1])
    if base == "ISETP" and "EX" in parts:
        a, b, low = read(operands[2]), read(operands[3]), _holds(operands[5], known)
        if a is None or b is None or low is None:
            return None
        return {operands[0]: int(low if a == b else _COMPARED[parts[1]](a, b)), operands[1]: None}
    if base == "ISETP":
        return {operands[0]: _compare(parts, read(operands[2]), read(operands[3]), operands[4], known), operands[1]: None}
    if base == "PLOP3" and len(operands) >= 6:
        bits = [_holds(x, known) for x in operands[2:5]]
        table = read(operands[5])
        return {operands[0]: _lookup(*(None if b is None else -int(b) for b in bits), table)}  # type: ignore[arg-type]
    return None


def _compare(parts: list[str], a: int | None, b: int | None, other: str, known: dict[str, int]) -> int | None:
    first = None
    if a is not None and b is not None:
        if "U32" in parts:
            a, b = a & 0xFFFFFFFF, b & 0xFFFFFFFF
        first = _COMPARED[parts[1]](a, b)
    second = _holds(other, known)
    if "AND" in parts:
        found = _both(first, second)
    elif "OR" in parts:
        found = True if first or second else None if first is None or second is None else False
    else:
        found = None
    return None if found is None else int(found)


def _lookup(a: int | None, b: int | None, c: int | None, table: int | None) -> int | None:
    """Of three words by a truth table, where the unknown ones do not matter."""
    if table is None:
        return None
    results = set()
    for x in (a,) if a is not None else (0, -1):
        for y in (b,) if b is not None else (0, -1):
            for z in (c,) if c is not None else (0, -1):
                word = 0
                for n in range(8):
                    if table >> n & 1:
                        word |= (x if n & 4 else ~x) & (y if n & 2 else ~y) & (z if n & 1 else ~z)
                results.add(word)
    return results.pop() if len(results) == 1 else None


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
