"""`schedule.md`: the statements of schedules, each with its form, an example, and the specs before and after its line."""

from __future__ import annotations

from andiron.codegen.pipeline import compile_program
from andiron.codegen.schedule.statement_reference import SAMPLES, STATEMENTS, Statement
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params

from .page import DOCS, MADE, TESTS

NOT_YET = {
    "persistent, multicast, by producer, by consumer": "units that stay and take tile after tile; groups of warps with roles",
    "nonzeros(...)": "tiles of the stored elements of a sparse tensor",
    "budget, share": "tensors larger than the device; several ops in one launch",
}


def example_text(s: Statement) -> str:
    """A whole text for the example of a statement: what it imports, its device, its strategies, the schedule."""
    libraries = "".join(f"import std.ops.{n}\n" for n in ("gemm", "reduce", "norm", "tensor", "conv", "elementwise"))
    device = (TESTS / "support" / "devices" / "simt.sched").read_text(encoding="utf-8") if s.device == "simt" else ""
    body = "".join(f"    {line}\n" for line in s.lines.splitlines())
    return f"{libraries}{device}{SAMPLES}schedule example for {s.op} on {s.device}:\n{body}"


def rewrite(s: Statement) -> tuple[str, str, str]:
    """The spec before the line shown, the line, and the spec after it."""
    module = loads(example_text(s))
    op = bind_params(module.ops[s.op])
    compiled = compile_program(module, op, module.schedules["example"], module.device(s.device))
    before = ""
    for t in compiled.trace:
        if t.depth == 1 and t.line.startswith(s.shows):
            return before, t.line, t.specs[0] if t.specs else "nothing left"
        if t.depth <= 1 and t.specs:
            before = t.specs[0]
    # Lines that are gone before lowering (`inline`) show in the spec of the launch.
    return "", s.shows, next(t.specs[0] for t in compiled.trace if t.specs)


def schedule_page() -> str:
    intro = (DOCS / "schedule.in.md").read_text(encoding="utf-8")
    out = [MADE, intro.rstrip("\n"), ""]
    for s in STATEMENTS:
        before, line, after = rewrite(s)
        device = " (the machine `simt` of the [device page](device.md))" if s.device == "simt" else ""
        schedule = "".join(f"    {x}\n" for x in s.lines.splitlines())
        out += [f"## {s.name}", "", "```text", s.form, "```", "", s.text.strip("\n"), ""]
        out += [f"For `{s.op}`{device}:", ""]
        out += [f"```sched fragment {s.device}", f"schedule example for {s.op}:", schedule + "```", ""]
        shown = f"      {before}\n-->   {line}\n      {after}" if before else f"      {after}"
        out += ["```text", shown, "```", ""]
    out += ["## Not yet", "", "These words are part of the language, and wait for their lowering:", ""]
    out += [f"- `{name}`: {what}" for name, what in NOT_YET.items()]
    return "\n".join(out) + "\n"
