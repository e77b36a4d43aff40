"""`DeviceKernel`: an op compiled for a GPU, called with arrays in its memory.

A call checks types and shapes, gets memory for results and the current stream from the arrays' own library, and launches. It
copies nothing, waits for nothing and allocates only through that library, so after its first call a kernel can be captured into
a graph.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...codegen.abi import chosen as chosen_program
from ...codegen.abi import programs
from ...codegen.emit.printers import launches
from ...dsl.errors import InternalError
from ...dsl.errors.run import ArgumentShape, ArgumentType, DeviceMismatch, OutputOverlap, SizeRefused
from ...dsl.op import Op, Tensor
from ..arrays.alias import refuse_overlap
from ..arrays.bind_sizes import bind_sizes, output_shapes, tensor_text
from ..arrays.convert import numpy_dtype, refuse_other_number, result_converter
from ..arrays.match_arguments import by_position, refuse_shared_elements, wrong_count
from ..call_plan import CallMemory
from ..empty_space import fitted_to_zeros
from ..kernel import Kernel
from ..variant import Variant
from .arch import code_format
from .arrays import Arrays, any_library, kind_of, library_of
from .call_plan import DeviceCallPlan, LaunchCall, ProgramCall
from .driver import Driver, find_driver
from .toolchains import build_code

if TYPE_CHECKING:
    from ..compile import CompileRequest
    from ..tuning.tuning_store import TunedSchedule

_MOST_BLOCKS = 2**31 - 1  # of a launch, along its first axis
_ALIGN = 256  # bytes, of each workspace

View = tuple[int, tuple[int, ...], int]


class DeviceKernel(Kernel):
    """A kernel for a GPU.

    As `Kernel`; arrays are CuPy's, PyTorch's, or others that DLPack reaches, and results are of their family.
    """

    def __init__(
        self,
        op: Op,
        variants: Sequence[Variant],
        sizes: Mapping[str, int] | None = None,
        *,
        request: CompileRequest | None = None,
        tuned: TunedSchedule | None = None,
    ) -> None:
        super().__init__(op, variants, sizes, 1, request=request, tuned=tuned)
        self._families: dict[type, tuple[Arrays, tuple[Any, ...]]] = {}
        self._functions: dict[tuple[Variant, int], list[list[tuple[Any, int]]]] = {}
        self._driver: Driver | None = None

    def __call__(self, *args: Any, out: Any = None, threads: int | None = None, **named: Any) -> Any:
        """The op's outputs for these inputs: one array, or a tuple in the order of the declaration.

        out      an array, or a tuple of them, to write instead of new ones; it is returned
        threads  of the CPU; a GPU's are the schedule's, and it is not looked at
        named    inputs by name
        """
        if named or len(args) != len(self._inputs):
            args = by_position(self.op, self.sizes, args, named)
        back = None
        copied: tuple[str, ...] = ()
        array = type(args[0]) if args else None
        family = self._families.get(array) if array is not None else None
        library, types = family if family is not None else self._family(args)
        views: list[View] = []
        for x, dtype in zip(args, types):  # noqa: B905 - checked above, and this is the hot path
            view = library.view(x, dtype) if type(x) is library.array else None
            if view is None:
                args, views, back, copied = self._take(library, types, args)
                break
            views.append(view)
        device = views[0][2] if views else 0
        key = (library, device, *[v[1] for v in views])
        used = self._used
        plan: DeviceCallPlan = used.plans.get(key) or self._plan(used, key, views)
        if out is None:
            written = results = [library.empty(shape, dtype, device) for shape, dtype in plan.outputs]
        else:
            written, results = self._into(out, plan, device)
        addresses = [*[v[0] for v in views], *[library.address(r) for r in results]]
        if out is not None:
            self._keep_apart(addresses, plan, [w is r for w, r in zip(written, results, strict=True)])
        if plan.order is not None:
            addresses = [addresses[i] for i in plan.order]
        low = 0
        for address in addresses:
            low |= address
        way = plan.program_calls.get(()) if not low & plan.mask else self._other_way(plan, addresses, device)
        if way is None:
            way = self._way(plan, device, ())
        memory = None
        if plan.spaces[-1]:
            memory, start = library.bytes(plan.spaces[-1], device)
            addresses += [start + at for at in plan.spaces[:-1]]
        block = way.block()
        plan.pack(block.values, 0, *addresses)
        launch = self._driver.launch  # type: ignore[union-attr]
        stream = ctypes.c_void_p(library.stream(device))
        for shape, parameters in block.calls:
            status = launch(*shape, stream, parameters, None)
            if status:
                self._again(status, device, (*shape, stream, parameters, None))
        way.free.append(block)
        self._copied = copied
        del memory  # the library keeps it until the stream is past the launches
        if out is not None:
            for w, r in zip(written, results, strict=True):
                if w is not r:
                    library.copy(w, r)
            return out
        if back is not None:
            results = [back(r) for r in results]
        return results[0] if len(results) == 1 else tuple(results)

    def place(self, arrays: Sequence[np.ndarray], outputs: bool = False) -> list[Any]:
        find_driver(self.kind)
        library = self._own_library()
        tensors = self._outputs if outputs else self._inputs
        return [library.place(a, library.dtype(t.dtype), 0) for a, t in zip(arrays, tensors, strict=True)]

    def host(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        given = zip(by_position(self.op, self.sizes, tuple(arrays), {}), self._inputs, strict=True)
        return [x if kind_of(x) is None else library_of(x).fetch(x, numpy_dtype(t.dtype)) for x, t in given]  # type: ignore

    def fetch(self, results: Sequence[Any]) -> list[np.ndarray]:
        library = self._own_library()
        return [library.fetch(x, numpy_dtype(t.dtype)) for x, t in zip(results, self._outputs, strict=True)]

    def wait(self) -> None:
        self._own_library().wait()

    def prepare(self, sizes: Mapping[str, int] | None = None) -> Kernel:
        """Builds all variants now instead of at the first call; no GPU is needed for it.

        Before a graph is captured, call once.
        """
        return super().prepare(sizes)

    # ------------------------------------------------------------ arrays

    @property
    def kind(self) -> str:
        return self.variants[0].target.family.name

    def _own_library(self) -> Arrays:
        """One that has arrays of all types of the op."""
        return any_library(self.kind, [t.dtype for t in (*self._inputs, *self._outputs)])

    def _family(self, args: tuple[Any, ...]) -> tuple[Arrays, tuple[Any, ...]]:
        """The library whose arrays these are, and its types of the inputs. Raises NoDevice, DeviceMismatch, ArgumentKind."""
        self._driver = find_driver(self.kind)
        library = next((found for x in args if (found := library_of(x)) is not None), None)
        if library is not None and library.kind != self.kind:
            raise DeviceMismatch(
                f"the arrays are in the memory of a GPU of kind {library.kind}; this kernel is for {self.target}"
            )
        if library is None:
            self._refuse_host(args)
            library = self._own_library()
        types = tuple(library.dtype(t.dtype) for t in self._inputs)
        if args and type(args[0]) is library.array:
            self._families[library.array] = (library, types)
        return library, types

    def _refuse_host(self, args: tuple[Any, ...]) -> None:
        for x, tensor in zip(args, self._inputs, strict=True):
            if kind_of(x) is None and not _scalar(x, tensor):
                raise self._elsewhere(
                    tensor, "the host's memory" if hasattr(x, "__array__") else f"no GPU ({type(x).__name__})"
                )

    def _elsewhere(self, tensor: Tensor, where: str) -> DeviceMismatch:
        return DeviceMismatch(
            f"{tensor.name} is in {where}; this kernel runs on a GPU ({self.target})",
            help="copy it there first: `cupy.asarray(A)`, `tensor.cuda()`",
        )

    def _take(self, library: Arrays, types: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        """Arguments that cannot be used as they are, views of all, and how results become the family of the first one.

        Raises ArgumentKind, ArgumentType, DeviceMismatch.
        """
        given, scalars, copied = list(args), [], []
        for i, (x, tensor, dtype) in enumerate(zip(args, self._inputs, types, strict=True)):
            if _scalar(x, tensor):
                scalars.append(i)
                continue
            if not library.owns(x):
                self._refuse_host(args)
                x = library.take(x)
            if library.device(x) < 0:
                raise self._elsewhere(tensor, "the host's memory")
            if library.type_of(x) != dtype:
                raise ArgumentType(f"{tensor.name} has elements of type {library.type_of(x)}; expected {tensor_text(tensor)}")
            if library.view(x, dtype) is None:
                copied.append(tensor.name)
                x = library.contiguous(x)
            given[i] = x
        device = next((library.device(x) for i, x in enumerate(given) if i not in scalars), 0)
        for i in scalars:
            refuse_other_number(given[i], self._inputs[i])
            given[i] = library.full(given[i], types[i], device)
        views = [library.view(x, dtype) for x, dtype in zip(given, types, strict=True)]
        first = next((x for i, x in enumerate(args) if i not in scalars), None)
        foreign = first is not None and not library.owns(first)
        return tuple(given), views, result_converter(args) if foreign else None, tuple(copied)

    def _into(self, out: Any, plan: DeviceCallPlan, device: int) -> tuple[list[Any], list[Any]]:
        """`out` as arrays, and the contiguous ones to write: others are copied from them afterwards."""
        if plan.only is not None and type(out) is plan.library.array:
            view = plan.library.view(out, plan.only[1])
            if view is not None and view[1] == plan.only[0] and view[2] == device:
                return [out], [out]
        given = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(given) != len(self._outputs):
            raise wrong_count(self.op, len(given))
        results = []
        for x, tensor, (shape, dtype) in zip(given, self._outputs, plan.outputs, strict=True):
            if not plan.library.owns(x):
                raise ArgumentType(f"out `{tensor.name}` is a {type(x).__name__}; the inputs are arrays of {plan.library.name}")
            if plan.library.device(x) != device:
                raise DeviceMismatch(f"out `{tensor.name}` is on another device than the inputs")
            if plan.library.type_of(x) != dtype:
                raise ArgumentType(
                    f"out `{tensor.name}` has elements of type {plan.library.type_of(x)}; expected {tensor_text(tensor)}"
                )
            if tuple(x.shape) != shape:
                raise ArgumentShape(f"out `{tensor.name}` has shape {tuple(x.shape)}; expected {shape}: {tensor_text(tensor)}")
            plain = plan.library.view(x, dtype) is not None
            if not plain:
                refuse_shared_elements(tensor, shape, *plan.library.strides(x))
            results.append(x if plain else plan.library.empty(shape, dtype, device))
        return given, results

    def _keep_apart(self, addresses: Sequence[int], plan: DeviceCallPlan, direct: Sequence[bool]) -> None:
        """Raises OutputOverlap. What a kernel touches is contiguous, so comparing bounds is exact."""
        inputs = len(self._inputs)
        if plan.only is not None:
            start, size = addresses[-1], plan.nbytes[-1]
            if not any(start < a + n and a < start + size for a, n in zip(addresses[:-1], plan.nbytes)):  # noqa: B905
                return
        for j, own in enumerate(direct):
            start, size = addresses[inputs + j], plan.nbytes[inputs + j]
            if not own:
                continue
            for i in range(inputs + j):
                if not (start < addresses[i] + plan.nbytes[i] and addresses[i] < start + size):
                    continue
                if i >= inputs:
                    raise OutputOverlap(
                        f"out `{self._outputs[j].name}` shares memory with out `{self._outputs[i - inputs].name}`",
                        help="pass arrays that share no memory",
                    )
                refuse_overlap(self.op, self._outputs[j], self._inputs[i], start == addresses[i] and size == plan.nbytes[i])

    # ------------------------------------------------------------ plans

    def _plan(self, used: CallMemory, key: tuple[Any, ...], views: Sequence[View]) -> DeviceCallPlan:
        library, device, *shapes = key
        for (_, _, own), tensor in zip(views, self._inputs, strict=True):
            if own != device:
                raise self._elsewhere(
                    tensor, "the host's memory" if own < 0 else f"GPU {own}, the first one in that of GPU {device}"
                )
        if device < 0:
            raise self._elsewhere(self._inputs[0], "the host's memory")
        shapes = [tuple(int(n) for n in shape) for shape in shapes]
        sizes = bind_sizes(self.op, shapes, self.sizes)
        made = output_shapes(self.op, sizes)
        chosen = fitted_to_zeros(self._choose(sizes, used), self.request, self.op, sizes)
        env = chosen.program.with_derived(sizes)
        arguments = [b for b in chosen.program.buffers if b.kind != "workspace"]
        at = [0]
        for b in chosen.program.buffers:
            if b.kind == "workspace":
                at.append(at[-1] + -(-int(b.size.evaluate(env)) * b.dtype.bytes // _ALIGN) * _ALIGN)
        aligned = [n for p in programs(chosen.program) if p.needs for _, n in p.needs.aligned]
        tensors = (*self._inputs, *self._outputs)
        names = [t.name for t in tensors]
        order = tuple(names.index(b.name) for b in arguments)
        results = tuple((s, library.dtype(t.dtype)) for s, t in zip(made, self._outputs, strict=True))
        plan = DeviceCallPlan(
            chosen,
            library,
            env,
            max(aligned, default=1) - 1,
            {},
            results,
            results[0] if len(results) == 1 else None,
            None if order == tuple(range(len(names))) else order,
            tuple(prod(s) * t.dtype.bytes for s, t in zip((*shapes, *made), tensors, strict=True)),
            tuple(at),
            struct.Struct(f"={len(names) + len(at) - 1}Q").pack_into,
        )
        with self._lock.held():
            return self._with_room(used).plans.setdefault(key, plan)

    def _other_way(self, plan: DeviceCallPlan, addresses: Sequence[int], device: int) -> ProgramCall:
        """The launches for arguments that do not all begin at multiples of what vectors take."""
        bits = tuple(a & plan.mask for a in addresses)
        return plan.program_calls.get(bits) or self._way(plan, device, bits)

    def _way(self, plan: DeviceCallPlan, device: int, bits: tuple[int, ...]) -> ProgramCall:
        """`bits`: of the arguments' addresses, in the order of the program's; () where all are 0."""
        whole = plan.variant.program
        arguments = [b.name for b in whole.buffers if b.kind != "workspace"]
        program = chosen_program(whole, plan.env, dict(zip(arguments, bits)))  # noqa: B905 - () stands for zeros
        pointers = {name: i for i, name in enumerate([*arguments, *(b.name for b in whole.buffers if b.kind == "workspace")])}
        slots: dict[str, int] = {}
        found = []
        for kernel, function in self._load(plan.variant, device)[list(programs(whole)).index(program)]:
            blocks = int(kernel.blocks.evaluate(plan.env))
            if blocks > _MOST_BLOCKS:
                raise SizeRefused(f"{blocks} blocks are more than one launch can have", help="larger tiles make fewer of them")
            numbers = [slots.setdefault(v.name, len(slots)) + len(pointers) for v in kernel.sizes]
            if blocks > 0:
                parameters = (*(pointers[b.name] for b in kernel.buffers), *numbers)
                found.append(LaunchCall(function, blocks, kernel.threads, kernel.shared, parameters))
        way = plan.program_calls[bits] = ProgramCall(tuple(found), tuple(plan.env[name] for name in slots), len(pointers))
        return way

    def _load(self, variant: Variant, device: int) -> list[list[tuple[Any, int]]]:
        """For each program of a variant its kernels, and their handles on a device."""
        found = self._functions.get((variant, device))
        if found is None:
            driver = self._driver
            assert driver is not None
            arch = driver.arch(device)
            form = code_format(variant.target.arch, arch)
            if form is None:
                raise DeviceMismatch(
                    f"this GPU is {arch}; the kernel is for {variant.target.name}",
                    help=f"compile for `{self.kind}`, which is the GPU at hand",
                )
            code = variant.load()
            if form != getattr(code, "format", form):
                code = build_code(variant.source, variant.target, form, self.op.name)
            ways = [launches(p, variant.target.family.dialect) for p in programs(variant.program)]
            wanted = [(k.name, k.shared) for kernels in ways for k in kernels]
            handles = iter(driver.load(device, code.data, wanted))  # type: ignore[union-attr]
            found = self._functions[variant, device] = [[(k, next(handles)) for k in kernels] for kernels in ways]
        return found

    def _again(self, status: int, device: int, call: tuple[Any, ...]) -> None:
        """A launch that failed because this thread has no current device, or another: once more on the right one."""
        driver = self._driver
        assert driver is not None
        if driver.wrong_device(status):
            with driver.on(device):
                status = driver.launch(*call)
        if status:
            raise InternalError(f"the launch of {self.op.name} failed: {driver.error(status)}")


def _scalar(x: Any, tensor: Tensor) -> bool:
    return not tensor.shape and isinstance(x, (bool, int, float, np.generic, np.ndarray)) and np.ndim(x) == 0
