"""`Kernel`: an op compiled for a target, called with arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.ir.program import Program
from ..codegen.lower.schedule_trace import TracedLine
from ..dsl.errors.emulate import NotEmulated
from ..dsl.errors.run import CannotSave
from ..dsl.op import Op
from ..dsl.support.expected import expect, expect_count
from ..dsl.support.forks import ForkLock
from .arrays.alias import refuse_overlaps
from .arrays.bind_sizes import bind_sizes, output_shapes, tensor_text
from .arrays.convert import Back, empty, numpy_dtype
from .arrays.data_pointer import address_of
from .arrays.match_arguments import by_position, contiguous_inputs, writable_outputs
from .call_plan import MOST_PLANS, CallMemory, CallPlan
from .empty_space import fitted_to_zeros
from .native.fast_call import fast_caller
from .native.threads import checked_threads, default_threads
from .op_counts import argument_bytes, flops
from .report import Report
from .timing import Timing, interleaved
from .variant import Variant

if TYPE_CHECKING:
    from .compile import CompileRequest
    from .tuning.search import Tuning
    from .tuning.tuning_store import TunedSchedule


class Kernel:
    """An op that is compiled for a target. A call with arrays gives the outputs: `C = k(A, B)`.

    The source code, the schedule and the report can be read without a C++ compiler. A call at a new shape tries the variants in
    order, and uses the first whose conditions hold. Any number of threads may call at the same time, and may set options
    meanwhile. A call uses the options that it finds at its start. A kernel for a GPU takes arrays in the memory of that GPU.

    op       the op, with numbers for its parameters
    sizes    the sizes that are fixed, by name
    threads  how many threads may take part in a call, where the call does not say
    request  the request to `compile` that it was made from, or None
    tuned    the search that found its schedule, or None
    notes    the notes that its report shows
    """

    def __init__(
        self,
        op: Op,
        variants: Sequence[Variant],
        sizes: Mapping[str, int] | None = None,
        threads: int | None = None,
        request: CompileRequest | None = None,  # what it was made from
        tuned: TunedSchedule | None = None,  # what tuning found, where the schedule is from there
    ) -> None:
        self.op = op
        self.sizes = dict(sizes or {})
        self.threads = threads or default_threads()
        self.request, self.tuned = request, tuned
        self.notes: set[str] = {*(request.notes if request else ()), *((str(tuned),) if tuned else ())}
        self._copied: tuple[str, ...] = ()  # inputs that the latest call had to copy
        self._inputs, self._outputs = op.inputs, op.outputs
        self._dtypes: tuple[np.dtype, ...] = ()  # filled at the first call: the text alone needs no ml_dtypes
        self._lock = ForkLock()
        self._used = CallMemory(variants)

    @property
    def variants(self) -> Sequence[Variant]:
        """The compiled forms, in the order in which a call tries them."""
        return self._used.variants

    @property
    def target(self) -> str:
        """The name of the target, as `cpu:avx2`."""
        return self.variants[0].target.name

    @property
    def source(self) -> str:
        """The source code of the first variant. It is complete: a compiler can build it by itself."""
        return self.variants[0].source

    @property
    def schedule(self) -> str:
        """The explicit schedule of the first variant, as text."""
        return self.variants[0].schedule

    @property
    def trace(self) -> tuple[TracedLine, ...]:
        """The lines of that schedule, each with the spec that it leaves."""
        return self.variants[0].trace

    @property
    def program(self) -> Program:
        """The tile program of the first variant."""
        return self.variants[0].program

    @property
    def report(self) -> Report:
        """The report: sizes, target, compiler, footprints, notes. Printing it gives a table."""
        copied = (f"{name} was not contiguous: each such call copies it" for name in self._copied)
        return Report.of(self.op, self.variants, self.sizes, self.threads, {*self.notes, *copied})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the built kernel to a file. `andiron.load_kernel` reads it on a machine of the same kind, without a C++
        compiler.

        path  the path of the file

        Raises CannotSave for a kernel of a GPU or of the emulator. Raises CannotWrite if the file cannot be written. Raises
        NoCompiler or CompilerFailed if a variant cannot be built.
        """
        from .storage.save import save

        save(self, path)

    def benchmark(self, *args: Any, out: Any = None, repeat: int = 9, threads: int | None = None) -> Timing:
        """Measures calls with these arrays. The calls are warm, and write to memory that was allocated before.

        args     the inputs, as in a call
        out      memory for the outputs, as in a call
        repeat   the number of samples. A sample is as many calls as take 2 ms
        threads  as in a call

        Returns a `Timing`: seconds for one call, in each sample.

        Raises what a call raises.
        """
        expect_count("repeat", repeat, 1, "the number of samples")
        out = self(*args, out=out, threads=threads)
        samples = interleaved([lambda: self(*args, out=out, threads=threads)], repeat, self.wait)[0]
        sizes = bind_sizes(self.op, [np.shape(x) for x in args], self.sizes)
        return Timing(tuple(samples), flops(self.op, sizes), argument_bytes(self.op, sizes))

    def tune(
        self, *args: Any, top: int = 10, seconds: float = 60.0, say: Callable[[str], None] | None = None, keep: bool = True,
        executor: Any = None, trials: int | None = None,
    ) -> Tuning:  # fmt: skip
        """Measures candidates for the schedule, and uses the fastest from now on.

        Later compilations for the same op, sizes and target find the result in the cache. After Ctrl-C the best so far counts.

        args      arrays to check and to time candidates with, as in a call. Without them the arrays are random
        top       how many candidates to measure: those with the best predictions
        seconds   the seconds after which the best so far counts. With `executor` it is the time for measuring
        say       a function that is called with a line of text for each step
        keep      whether the result goes to the cache
        executor  an executor like those of `concurrent.futures`, a function that makes one, or the address of a Dask scheduler:
                  its workers compile and measure what the database of measurements lacks
        trials    how many to measure in all: after `top` come changes of the fastest. Schedules of a file are not changed

        Returns a `Tuning`.

        Raises CannotTune if there is nothing to choose or to measure, NoDevice if this machine lacks the GPU, NothingRight if
        no candidate has right results, what a call raises, and with `executor` ExecutorFailed, VersionsDiffer and NoPackage.
        """
        from .tuning.search import tune

        return tune(self, args, top, seconds, say, keep, executor, trials)

    def adopt(self, variants: Sequence[Variant], tuned: TunedSchedule) -> None:
        """Uses these variants from now on. Tuning calls this with what it found.

        variants  variants of the same op, for the same target
        tuned     the search that found them

        Raises nothing.
        """
        self.notes -= {str(self.tuned)}
        self.notes.add(str(tuned))
        with self._lock.held():
            self.tuned, self._used = tuned, CallMemory(variants)

    def place(self, arrays: Sequence[np.ndarray], outputs: bool = False) -> list[Any]:
        """Brings NumPy arrays to the memory that the kernel works in. A kernel for a CPU takes them as they are.

        arrays   the arrays, in the order of the inputs or outputs
        outputs  whether they are memory for outputs

        Returns arrays that a call takes.

        Raises ArgumentKind if `arrays` is no list. For a GPU it raises NoDevice without a GPU, and ArgumentKind without a
        library of arrays for it.
        """
        expect("arrays", arrays, Iterable, "arrays, in the order of the declaration")
        return list(arrays)

    def host(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Reads the inputs of a call as NumPy arrays.

        arrays  the inputs, in the order of the declaration

        Returns contiguous NumPy arrays.

        Raises ArgumentCount, ArgumentKind, ArgumentType, ArgumentShape or DeviceMismatch, as a call does.
        """
        expect("arrays", arrays, Iterable, "the inputs, in the order of the declaration")
        return contiguous_inputs(self.op, self.sizes, by_position(self.op, self.sizes, tuple(arrays), {}))[0]

    def fetch(self, results: Sequence[Any]) -> list[np.ndarray]:
        """Brings outputs to NumPy arrays. It waits for them.

        results  the outputs of a call

        Returns NumPy arrays.

        Raises ArgumentKind if `results` is no list.
        """
        expect("results", results, Iterable, "the outputs, in the order of the declaration")
        return list(results)

    def wait(self) -> None:
        """Waits until all calls are done. Calls of a kernel for a GPU return before they are done.

        Raises nothing.
        """

    @property
    def counting(self) -> bool:
        """Whether calls count what they do: bytes, transactions and bank conflicts, in `report.counts`. Only a kernel for the
        emulator can. Setting it for another raises NotEmulated.
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
        inputs = ", ".join(map(tensor_text, self._inputs))
        outputs = ", ".join(map(tensor_text, self._outputs))
        fixed = "".join(f" {n}={v}" for n, v in self.sizes.items())
        return f"<kernel {self.op.name}({inputs}) -> ({outputs}) for {self.target}{fixed}>"

    def __copy__(self) -> Kernel:
        """A kernel with options of its own, for the same code."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__, notes=set(self.notes))
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        """The same: the code never changes, so both may use it."""
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        help = "send its text and compile there; for a CPU, `kernel.save(path)` and `andiron.load_kernel(path)`"
        raise CannotSave("a kernel cannot be pickled: its code is loaded into this process", help=help)

    def prepare(self, sizes: Mapping[str, int] | None = None) -> Kernel:
        """Builds all variants now instead of at the first call.

        sizes  the value of every size of the op, to build only the variant for these sizes. None builds all

        Returns the kernel itself.

        Raises NoCompiler or CompilerFailed if a variant cannot be built. Raises DeviceMismatch if this machine cannot execute
        the code. Raises SizeRefused if no variant is for these sizes, and ArgumentKind if `sizes` is no mapping.
        """
        expect("sizes", sizes, (Mapping, NoneType), "the value of every size by name")
        for variant in self.variants if sizes is None else [self._choose(sizes)]:
            variant.load()
        return self

    def __call__(self, *args: Any, out: Any = None, threads: int | None = None, **named: Any) -> Any:
        """Computes the outputs of the op for these inputs.

        args     the inputs, in the order of the declaration: NumPy arrays, or objects with `__dlpack__` or `__array__`. Each
                 has the shape and the element type that the op declares. An array that is not contiguous is copied
        out      an array, or a tuple of arrays, to write the outputs to, of the shapes and element types of the outputs
        threads  how many threads may take part; None is `self.threads`. A kernel for a GPU does not look at it
        named    inputs by name

        Returns one array, or a tuple of arrays in the order of the declaration if there are several outputs. They are of the
        same library as the inputs. With `out` it returns `out`.

        Raises these, and under the emulator the faults that it finds:

        ArgumentCount               too few or too many arguments, or a name that is no input
        ArgumentKind                an argument is no array that the kernel can read, or `threads` is no positive integer
        ArgumentType                an array has another element type, or a number does not fit the type
        ArgumentShape               an array has another rank, or its shape contradicts another or a fixed size
        SizeRefused                 the op or the schedule excludes the sizes, or memory cannot hold an array
        EmptyArgmax                 an `argmax` has nothing to choose from at these sizes
        OutputReadOnly              `out` cannot be written
        OutputOverlap               `out` shares memory with an input in a way that would change results
        DeviceMismatch              an array lives elsewhere, or this machine cannot execute the code
        NoCompiler, CompilerFailed  a variant cannot be built at its first call
        """
        repeated = self._used.caller
        if repeated is not None and not named:
            results = repeated.run(args, out, self.threads if threads is None else threads)
            if results is not None:
                if self._copied:
                    self._copied = ()
                return results
        return self._slow_call(args, out, threads, named)

    def _slow_call(self, args: tuple[Any, ...], out: Any, threads: int | None, named: dict[str, Any]) -> Any:
        """A call, each step of it."""
        if named or len(args) != len(self._inputs):
            args = by_position(self.op, self.sizes, args, named)
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
                arrays, back, copied = contiguous_inputs(self.op, self.sizes, args)
                break
        shapes = tuple([x.shape for x in arrays])
        plan = used.plans.get(shapes) or self._new_plan(used, shapes)
        if out is None:
            results = [empty(shape, dtype) for shape, dtype in plan.outputs]
            written = results
        elif type(out) is np.ndarray and (out.shape, out.dtype) == plan.only and out.flags.carray:
            written = results = (out,)
        else:
            written = writable_outputs(self.op, out, plan.outputs)
            results = [w if w.flags.c_contiguous and w.flags.aligned else np.empty(w.shape, w.dtype) for w in written]
        addresses = [address_of(x) for x in (*arrays, *results)]
        if out is not None and not plan.apart(addresses):
            refuse_overlaps(self.op, arrays, written, results, addresses)
        if plan.order is not None:
            addresses = [addresses[i] for i in plan.order]
        count = checked_threads(self.threads if threads is None else threads)
        status = plan.call(plan.pointers(*addresses), plan.dims, count)
        if status:
            raise plan.failure(self.op.name, status)
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

    def _choose(self, sizes: Mapping[str, int], used: CallMemory | None = None) -> Variant:
        """The first variant whose conditions hold. Raises why the first one's do not, where none does."""
        refusals = []
        for v in (used or self._used).variants:  # those below the one that is taken may not be compiled yet
            refusal = v.refusal(sizes)
            if refusal is None:
                return v
            refusals.append(refusal)
        raise refusals[0]

    def _new_plan(self, used: CallMemory, shapes: tuple[tuple[int, ...], ...]) -> CallPlan:
        sizes = bind_sizes(self.op, shapes, self.sizes)
        made = output_shapes(self.op, sizes)
        chosen = fitted_to_zeros(self._choose(sizes, used), self.request, self.op, sizes)
        library: Any = chosen.load()
        open_sizes = [sizes[v.name] for v in chosen.program.dims]
        names = [t.name for t in (*self._inputs, *self._outputs)]
        order = tuple(names.index(n) for n in chosen.arguments)
        results = tuple((s, numpy_dtype(t.dtype)) for s, t in zip(made, self._outputs, strict=True))
        plan = CallPlan(
            library.call,
            (ctypes.c_int64 * len(open_sizes))(*open_sizes),
            results,
            ctypes.c_void_p * len(order),
            None if order == tuple(range(len(names))) else order,
            chosen,
            results[0] if len(results) == 1 else None,
            tuple(prod(s) * t.itemsize for s, t in (*zip(shapes, self._dtypes, strict=True), *results)),
        )
        first = fast_caller() if chosen.target.family.launcher == "ctypes" else None
        with self._lock.held():
            used = self._with_room(used)
            if used.plans.setdefault(shapes, plan) is plan and (before := used.caller or first) is not None:
                arrays = [*zip(shapes, self._dtypes, strict=True), *results]
                used.caller = before.add_entry(self.op, library.call, open_sizes, arrays, order)
        return plan

    def _with_room(self, used: CallMemory) -> CallMemory:
        """Where one more plan goes. Only for who has the lock."""
        if used is self._used and len(used.plans) >= MOST_PLANS:
            used = self._used = CallMemory(used.variants)
        return used
