"""The text that nvdisasm prints for instructions, from shorter lines."""

from __future__ import annotations

import re

_NONE = 7  # no scoreboard


def sass_text(rows: str, name: str = "kernel") -> str:
    """A function of these rows: a label of its own as `L_x_0:`, else an instruction, with what schedules it behind `|`.

    HMMA.16816.F32 R4, R8, R2, R4 | stall 8 write 0 read 1 waits 0,3 lines 12,40

    lines  of the text: its own, that of the call that this was inlined at; those of the row before where it is not given
    """
    lines = [f"//--------------------- .text.{name} --------------------------", f'\t.section\t.text.{name},"ax",@progbits']
    lines += [f"        .type           {name},@function", f"{name}:", f".text.{name}:"]
    address = 0
    for row in filter(None, map(str.strip, rows.splitlines())):
        if row.endswith(":"):
            lines.append(f".{row}")
            continue
        text, _, schedule = row.partition("|")
        given = dict(re.findall(r"(stall|write|read|waits|lines) ([\d,]+)", schedule))
        upper = int(given.get("stall", 1)) << 41 | int(given.get("write", _NONE)) << 46 | int(given.get("read", _NONE)) << 49
        upper |= sum(1 << 52 + int(n) for n in given.get("waits", "").split(",") if n)
        text = re.sub(r"(L_x_\d+)$", r"`(.\1)", text.strip())
        inlined = [f"line {n}" for n in given.get("lines", "").split(",") if n]
        for n, line in enumerate(inlined):
            at = f' inlined at "kernel.cu", {inlined[n + 1]}' if n + 1 < len(inlined) else ""
            lines.append(f'\t//## File "kernel.cu", {line}{at}')
        lines += [f"        /*{address:04x}*/  {text} ;  /* 0x{0:016x} */", f"                  /* 0x{upper:016x} */"]
        address += 16
    return "\n".join(lines) + "\n"
