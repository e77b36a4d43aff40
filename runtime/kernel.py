"""`Kernel`: an op compiled for a target, called with arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.ir.program import Program
from ..codegen.lower.schedule_trace import Traced
from ..dsl.errors import InternalError, did_you_mean
from ..dsl.errors.emulate import NotEmulated
from ..dsl.errors.run import ArgumentCount, ArgumentShape, SizeRefused
from ..dsl.op import Op
from ..dsl.support.forks import Lock
from .arrays.alias import refuse_overlaps
from .arrays.bind_sizes import bind_sizes, describe, output_shapes
from .arrays.convert import Back, empty, numpy_dtype, to_numpy, way_back, writable
from .arrays.data_pointer import address_of
from .native.fast_call import Caller, caller
from .native.threads import checked_threads, default_threads
from .op_counts import argument_bytes, flops
from .report import Report
from .variant import Variant, Variants

if TYPE_CHECKING:
    from .compile import Request
    from .timing import Timing
    from .tuning.search import Tuning
    from .tuning.tuning_store import Kept

_PLANS = 512  # shapes remembered per kernel


@dataclass(frozen=True)
class _Plan:
    """What a call needs to know about shapes, once they were checked. `order` is None when arguments are in the op's order."""

    call: Callable[..., int]
    dims: ctypes.Array
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]
    pointers: Any
    order: tuple[int, ...] | None
    variant: Variant
    only: Any  # shape and type of the output when there is one
    nbytes: tuple[int, ...]  # of the inputs, then of the outputs

    def apart(self, addresses: Sequence[int]) -> bool:
        """Whether an only output, contiguous at its address, surely shares no memory with the inputs."""
        start = addresses[-1]
        end = start + self.nbytes[-1]
        for at, size in zip(addresses[:-1], self.nbytes):  # noqa: B905 - the output is left out
            if start < at + size and at < end:
                return False
        return self.only is not None


class Used:
    """What calls by some variants of a kernel remember. A call takes it at its start and keeps it to its end.

    REPLACED  Where a kernel goes on with other variants, or with nothing remembered, it gets a new one of these: nothing is
              taken from a call that runs. What such a call finds out, it adds to the old one, and that is forgotten with it.
    ADDED     Plans are only added, and `caller` is replaced, by who has the kernel's lock. Calls read without it.
    """

    def __init__(self, variants: Sequence[Variant]) -> None:
        self.variants: Sequence[Variant] = variants if isinstance(variants, Variants) else tuple(variants)
        self.plans: dict[Any, Any] = {}
        self.caller: Caller | None = None  # for calls like earlier ones


class Kernel:
    """An op, compiled. `k(A, B)` gives its outputs; the text, the schedule and the report can be read without a compiler.

    Several variants are tried in order at each new shape; the first whose conditions hold is used. Any number of threads may
    call at the same time, and set its options meanwhile: a call uses those that it finds at its start.
    """

    def __init__(
        self,
        op: Op,
        variants: Sequence[Variant],
        sizes: Mapping[str, int] | None = None,
        threads: int | None = None,
        request: Request | None = None,  # what it was made from
        tuned: Kept | None = None,  # what tuning found, where the schedule is from there
    ) -> None:
        self.op = op
        self.sizes = dict(sizes or {})
        self.threads = threads or default_threads()
        self.request, self.tuned = request, tuned
        self.notes: set[str] = {*(request.notes if request else ()), *((str(tuned),) if tuned else ())}
        self._copied: tuple[str, ...] = ()  # inputs that the latest call had to copy
        self._inputs, self._outputs = op.inputs, op.outputs
        self._dtypes: tuple[np.dtype, ...] = ()  # filled at the first call: the text alone needs no ml_dtypes
        self._lock = Lock()
        self._used = Used(variants)

    @property
    def variants(self) -> Sequence[Variant]:
        """Its compiled forms, in the order in which they are tried."""
        return self._used.variants

    @property
    def target(self) -> str:
        return self.variants[0].target.name

    @property
    def source(self) -> str:
        """The emitted text of the variant tried first, complete and compilable by itself."""
        return self.variants[0].source

    @property
    def schedule(self) -> str:
        """Its explicit schedule as text."""
        return self.variants[0].schedule

    @property
    def trace(self) -> tuple[Traced, ...]:
        """The lines of that schedule, each with the spec that it leaves."""
        return self.variants[0].trace

    @property
    def program(self) -> Program:
        """Its tile program."""
        return self.variants[0].program

    @property
    def report(self) -> Report:
        """What is known of it: sizes, target, compiler, footprints, notes. Printing it gives a table."""
        copied = (f"{name} was not contiguous: each such call copies it" for name in self._copied)
        return Report.of(self.op, self.variants, self.sizes, self.threads, {*self.notes, *copied})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the built kernel to a file that `andiron.load_kernel` reads on a machine of the same kind, without a compiler.

        Raises CannotSave, CannotWrite, NoCompiler, CompilerFailed.
        """
        from .storage.serialize import save

        save(self, path)

    def benchmark(self, *args: Any, out: Any = None, repeat: int = 9, threads: int | None = None) -> Timing:
        """How long a call with these arrays takes: warm, results in memory given beforehand, the median of `repeat` samples."""
        from .timing import Timing, interleaved

        out = self(*args, out=out, threads=threads)
        samples = interleaved([lambda: self(*args, out=out, threads=threads)], repeat, self.wait)[0]
        sizes = bind_sizes(self.op, [np.shape(x) for x in args], self.sizes)
        return Timing(tuple(samples), flops(self.op, sizes), argument_bytes(self.op, sizes))

    def tune(
        self, *args: Any, top: int = 10, seconds: float = 60.0, say: Callable[[str], None] | None = None, keep: bool = True
    ) -> Tuning:
        """Measures the `top` best candidates for its schedule, uses the fastest from now on, and keeps it in the cache, where
        later compilations of the same op for the same sizes and target find it. What is found is checked and timed on the
        given arrays, or on random ones.

        seconds  after about so long the best so far counts       say   called with what is being done, a line at a time
        keep     whether the result goes to the cache             Ctrl-C ends it early: the best so far counts

        Raises CannotTune; what building raises; ResultsDiffer where even the schedule as it was gives wrong results.
        """
        from .tuning.search import tune

        return tune(self, args, top, seconds, say, keep)

    def adopt(self, variants: Sequence[Variant], tuned: Kept) -> None:
        """Goes on with these variants of the same op, for the same target, which tuning found."""
        self.notes -= {str(self.tuned)}
        self.notes.add(str(tuned))
        with self._lock.held():
            self.tuned, self._used = tuned, Used(variants)

    def place(self, arrays: Sequence[np.ndarray], outputs: bool = False) -> list[Any]:
        """Arrays of NumPy's as inputs, or outputs, of this kernel: where it runs, copied there if need be."""
        return list(arrays)

    def host(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Arrays that could be a call's inputs as contiguous ones of NumPy's."""
        return self._read(self._by_position(tuple(arrays), {}))[0]

    def fetch(self, results: Sequence[Any]) -> list[np.ndarray]:
        """Outputs as arrays of NumPy's."""
        return list(results)

    def wait(self) -> None:
        """Until all calls are done: those of a GPU return before they are."""

    @property
    def counting(self) -> bool:
        """Whether calls count what they do: bytes, transactions, conflicts of banks (`report.counts`). Only under the emulator.

        Setting it raises NotEmulated for other kernels.
        """
        return self.variants[0].counting

    @counting.setter
    def counting(self, on: bool) -> None:
        if on and self.variants[0].target.family.launcher != "emulator":
            raise NotEmulated(f"{self!r} cannot count what it does", help="compile for `emulate:DEVICE`")
        if on and not self.variants[0].checks:
            raise NotEmulated(f"{self!r} has no checks, which do the counting", help="compile it with them")
        for variant in self.variants:
            variant.counting = on

    def __repr__(self) -> str:
        inputs = ", ".join(map(describe, self._inputs))
        outputs = ", ".join(map(describe, self._outputs))
        fixed = "".join(f" {n}={v}" for n, v in self.sizes.items())
        return f"<kernel {self.op.name}({inputs}) -> ({outputs}) for {self.target}{fixed}>"

    def prepare(self, sizes: Mapping[str, int] | None = None) -> Kernel:
        """Builds all variants now instead of at the first call, or the one for these sizes, of which none may be missing."""
        for variant in self.variants if sizes is None else [self._choose(sizes)]:
            variant.load()
        return self

    def __call__(self, *args: Any, out: Any = None, threads: int | None = None, **named: Any) -> Any:
        """The op's outputs for these inputs: one array, or a tuple in the order of the declaration.

        out      an array, or a tuple of them, to write instead of new ones; it is returned
        threads  how many threads may take part; default `self.threads`
        named    inputs by name
        """
        repeated = self._used.caller
        if repeated is not None and not named:
            results = repeated.run(args, out, self.threads if threads is None else threads)
            if results is not None:
                if self._copied:
                    self._copied = ()
                return results
        return self._at_length(args, out, threads, named)

    def _at_length(self, args: tuple[Any, ...], out: Any, threads: int | None, named: dict[str, Any]) -> Any:
        """A call, each step of it."""
        if named or len(args) != len(self._inputs):
            args = self._by_position(args, named)
        if not self._dtypes:
            self._dtypes = tuple(numpy_dtype(t.dtype) for t in self._inputs)
        used = self._used
        back: Back | None = None
        copied: tuple[str, ...] = ()
        arrays: Sequence[np.ndarray] = args
        for x, dtype in zip(args, self._dtypes):  # noqa: B905 - checked above, and this is the hot path
            if type(x) is not np.ndarray or x.dtype != dtype or not (x.flags.c_contiguous and x.flags.aligned):
                elsewhere = self.request.elsewhere if self.request is not None else None
                if elsewhere is not None and (other := elsewhere(args)) is not None:
                    return other(*args, out=out, threads=threads)
                arrays, back, copied = self._read(args)
                break
        shapes = tuple([x.shape for x in arrays])
        plan = used.plans.get(shapes) or self._new_plan(used, shapes)
        if out is None:
            results = [empty(shape, dtype) for shape, dtype in plan.outputs]
            written = results
        elif type(out) is np.ndarray and (out.shape, out.dtype) == plan.only and out.flags.carray:
            written = results = (out,)
        else:
            written = self._read_out(out, plan)
            results = [w if w.flags.c_contiguous and w.flags.aligned else np.empty(w.shape, w.dtype) for w in written]
        addresses = [address_of(x) for x in (*arrays, *results)]
        if out is not None and not plan.apart(addresses):
            refuse_overlaps(self.op, arrays, written, results, addresses)
        if plan.order is not None:
            addresses = [addresses[i] for i in plan.order]
        count = checked_threads(self.threads if threads is None else threads)
        status = plan.call(plan.pointers(*addresses), plan.dims, count)
        if status:
            raise self._failure(status, plan)
        self._copied = copied
        if out is not None:
            for w, r in zip(written, results, strict=True):
                if w is not r:
                    w[...] = r
            return out
        if back is not None:
            results = [back(r) for r in results]
        return results[0] if len(results) == 1 else tuple(results)

    # ------------------------------------------------------------ what a call seldom needs

    def _by_position(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        names = [t.name for t in self._inputs]
        wanted = f"{self.op.name} takes {_arrays(len(names))}: {', '.join(map(describe, self._inputs))}"
        if len(args) > len(names):
            raise ArgumentCount(f"{len(args)} were given; {wanted}", help="results are returned; `out=` gives memory for them")
        values = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name in values:
                raise ArgumentCount(f"{name} is given twice")
            if name not in names:
                fixed = name in dict(self.op.params) or name in self.sizes or any(d.name == name for d in self.op.dims)
                way_out = (
                    f"`{name}` is fixed when compiling: andiron.compile(..., {name}=...)"
                    if fixed
                    else did_you_mean(name, names)
                )
                raise ArgumentCount(f"no input `{name}`; {wanted}", help=way_out)
            values[name] = value
        lacking = [n for n in names if n not in values]
        if lacking:
            raise ArgumentCount(f"{', '.join(lacking)} not given; {wanted}")
        return tuple(values[n] for n in names)

    def _read(self, args: tuple[Any, ...]) -> tuple[list[np.ndarray], Back | None, tuple[str, ...]]:
        """Arrays as kernels take them, how results become the family of those given, and the names of copied inputs."""
        arrays, copied = [], []
        for x, tensor in zip(args, self._inputs, strict=True):
            array = to_numpy(x, tensor)
            if array.ndim != len(tensor.shape):
                bind_sizes(self.op, [np.shape(a) for a in args], self.sizes)  # says what is wrong, before any copy
            if not (array.flags.c_contiguous and array.flags.aligned):
                copied.append(tensor.name)
                try:
                    # `require` and not `ascontiguousarray`, which makes a rank of 0 into 1.
                    array = np.require(array, requirements=["C", "A"]).reshape(array.shape)
                except (MemoryError, ValueError):
                    raise SizeRefused(f"no memory for a contiguous copy of {tensor.name}, of shape {array.shape}") from None
            arrays.append(array)
        return arrays, way_back(args), tuple(copied)

    def _choose(self, sizes: Mapping[str, int], used: Used | None = None) -> Variant:
        """The first variant whose conditions hold. Raises why the first one's do not, where none does."""
        refusals = []
        for v in (used or self._used).variants:  # those below the one that is taken may not be compiled yet
            refusal = v.refusal(sizes)
            if refusal is None:
                return v
            refusals.append(refusal)
        raise refusals[0]

    def _new_plan(self, used: Used, shapes: tuple[tuple[int, ...], ...]) -> _Plan:
        sizes = bind_sizes(self.op, shapes, self.sizes)
        made = output_shapes(self.op, sizes)
        chosen = self._choose(sizes, used)
        library: Any = chosen.load()
        open_sizes = [sizes[v.name] for v in chosen.program.dims]
        names = [t.name for t in (*self._inputs, *self._outputs)]
        order = tuple(names.index(n) for n in chosen.arguments)
        results = tuple((s, numpy_dtype(t.dtype)) for s, t in zip(made, self._outputs, strict=True))
        plan = _Plan(
            library.call,
            (ctypes.c_int64 * len(open_sizes))(*open_sizes),
            results,
            ctypes.c_void_p * len(order),
            None if order == tuple(range(len(names))) else order,
            chosen,
            results[0] if len(results) == 1 else None,
            tuple(prod(s) * t.itemsize for s, t in (*zip(shapes, self._dtypes, strict=True), *results)),
        )
        first = caller() if chosen.target.family.launcher == "ctypes" else None
        with self._lock.held():
            used = self._with_room(used)
            if used.plans.setdefault(shapes, plan) is plan and (before := used.caller or first) is not None:
                arrays = [*zip(shapes, self._dtypes, strict=True), *results]
                used.caller = before.also(self.op, library.call, open_sizes, arrays, order)
        return plan

    def _with_room(self, used: Used) -> Used:
        """Where one more plan goes. Only for who has the lock."""
        if used is self._used and len(used.plans) >= _PLANS:
            used = self._used = Used(used.variants)
        return used

    def _read_out(self, out: Any, plan: _Plan) -> list[np.ndarray]:
        """`out` as arrays of the right types and shapes, which can be written."""
        given = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(given) != len(self._outputs):
            raise wrong_count(self.op, len(given))
        written = []
        for x, tensor, (shape, dtype) in zip(given, self._outputs, plan.outputs, strict=True):
            plain = type(x) is np.ndarray and x.dtype == dtype and x.flags.writeable
            array = x if plain else writable(x, tensor)
            if array.shape != shape:
                raise ArgumentShape(f"out `{tensor.name}` has shape {array.shape}; expected {shape}: {describe(tensor)}")
            written.append(array)
        return written

    def _failure(self, status: int, plan: _Plan) -> Exception:
        if status == 1:
            return SizeRefused("no memory for the kernel's own buffers")
        if status >= 100 and status - 100 < len(plan.variant.program.conditions):
            return SizeRefused(f"`{plan.variant.program.conditions[status - 100][1]}` does not hold")
        return InternalError(f"the kernel {self.op.name} ended with the unknown status {status}")


def _arrays(count: int) -> str:
    return f"{count} array" + "s" * (count != 1)


def wrong_count(op: Op, given: int) -> ArgumentCount:
    """For `out` with another number of arrays than the op has outputs."""
    outputs = len(op.outputs)
    return ArgumentCount(f"out has {_arrays(given)}; {op.name} has {outputs} output" + "s" * (outputs != 1))
