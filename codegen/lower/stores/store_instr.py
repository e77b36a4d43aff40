"""`keep C in register with I`: the instruction that stores registers, for the elements that it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dsl.device import Instr
from ....dsl.errors.schedule import InstrMismatch, ModifierArgument
from ....dsl.types import DType
from ....dsl.values import Load
from ...ir.schedule_tree import Keep, Leaf

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def store_instr_name(low: Lowering, keep: Keep | None, dtype: DType) -> str | None:
    """The name that the line gives, of an instruction or a family; those for elements of `dtype` go into the program.

    Taken for whole vectors, where the address is aligned and the tensor large enough; all else is stored as it would be.

    Raises InstrMismatch where the name is not that of instructions that copy from registers to an addressable memory, or lanes
    of the device make no vectors, and
    ModifierArgument where the line has a block, too.
    """
    if keep is None:
        return None
    name = keep.instr
    if name is not None and keep.block is not None:
        raise ModifierArgument(
            f"both the block and `with {name}` say how `{keep.names[0]}` is stored",
            keep.span,
            help="leave the block out, or `with`",
        )
    if isinstance(keep.block, Leaf) and keep.block.instr is not None:  # the same, as a line of its own
        name = keep.block.instr
    if name is None:
        return None
    ctx = low.ctx
    fitting = [i for i in ctx.device.instrs_named(name) if is_store_instr(i, ctx.register)]
    if not fitting:
        raise InstrMismatch(
            f"`{name}` does not store what `{keep.names[0]}` holds in registers",
            keep.span,
            help="leave it out, or name an instruction that copies from registers to a memory",
        )
    lanes = ctx.device.levels[-1]
    if lanes.bytes is None:
        raise InstrMismatch(
            f"`{name}` cannot be used here: no vector of lanes stores neighbours of `{keep.names[0]}`",
            keep.span,
            help=f"leave `with` out: neighbours that a {lanes.name} holds are stored together where the address allows it",
        )
    of_type = [i for i in fitting if i.operands[0].dtype == dtype]
    ctx.instrs |= {i.name: i for i in of_type}
    if not of_type:
        ctx.notes.append(
            f"`with {name}`: no member of it stores {dtype}; the elements of `{keep.names[0]}` are stored one by one"
        )
    return name if of_type else None


def is_store_instr(i: Instr, register) -> bool:
    """Whether it copies neighbours from registers to a memory. `register`: whether a memory is registers."""
    s = i.statement
    if i.accumulate or s.reduction is not None or not isinstance(s.value, Load) or len(s.indices) != 1:
        return False
    target, source = i.operand(s.target), i.operand(s.value.tensor)
    return register(source.memory) and not register(target.memory) and target.dtype == source.dtype
