"""`compile`: from a module, the names of an op and a schedule, and a target, to a `Kernel`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from numbers import Integral
from typing import Any

from ..codegen.autoschedule.default_schedules import default_schedules
from ..codegen.emit.printers import emit
from ..codegen.ir.program import Program
from ..codegen.pipeline import CompiledProgram, compile_program
from ..codegen.record_passes import PassRecord, record_passes
from ..codegen.schedule.parameters import parameters, schedule_parameters
from ..codegen.schedule.size_bounds import without_decided_bounds
from ..codegen.targets import Target, target_of
from ..dsl.device import Device
from ..dsl.errors import UserError, did_you_mean
from ..dsl.errors.emulate import NotEmulated
from ..dsl.errors.target import AmbiguousChoice, NotInModule, WrongSchedule
from ..dsl.module import Module, load, loads
from ..dsl.op import Op
from ..dsl.ops.specialise import bind_params, specialise
from ..dsl.schedule_builder import Schedule
from ..dsl.source import Source
from ..dsl.support.collector import postpone_collection
from ..dsl.support.expected import expect, expect_count, expect_flag
from ..dsl.syntax import OpDecl, ScheduleDecl
from ..dsl.text.parser import parse
from .devices import Lineages, device_of, is_default_for, is_for_device, schedules_for, skipped_schedules_note
from .given_values import merge_values, refuse_unknown
from .gpu.dispatch import DeviceKernels, attached_target
from .kernel import Kernel
from .native.threads import checked_threads, default_threads
from .op_counts import too_small_for_threads
from .tuning.tuning_store import TunedSchedule, is_allowed, load_record, named_database
from .variant import KernelVariants, Variant


@dataclass(frozen=True)
class CompileRequest:
    """What was asked of `compile`, looked up. Nothing is compiled yet.

    op         with numbers for its parameters            special    with numbers for its sizes too, as far as they were given
    named      the schedule that was asked for            schedules  to be tried in order; None stands for the compiler's own
    given      sizes and parameters as they were given    sizes      of the op        values  of the schedules' parameters
    """

    module: Module
    op: Op
    special: Op
    device: Device
    target: Target
    named: ScheduleDecl | None
    schedules: tuple[ScheduleDecl | None, ...]
    given: Mapping[str, int]
    sizes: Mapping[str, int]
    values: Mapping[str, int]
    threads: int | None = None
    notes: frozenset[str] = frozenset()
    checks: bool = True
    verify: bool = False
    elsewhere: Callable[[Sequence[Any]], Kernel | None] | None = None  # the kernel for where these arrays live

    def is_authored(self, schedule: ScheduleDecl | None) -> bool:
        """Whether one of the schedules is an author's, not the compiler's own."""
        return schedule is not None and (self.named is not None or schedule.name in self.module.schedules)

    def variant(
        self, schedule: ScheduleDecl | None, values: Mapping[str, int] | None = None, emit: Callable[..., str] = emit
    ) -> Variant:
        """The op by one schedule, compiled to text; `values` of its parameters instead of those that were asked for."""
        values = self.values if values is None else values
        made = variant(self.module, self.special, schedule, self.device, self.target, values, emit, self.checks)
        if self.verify:
            self.check(made, schedule)
        return made

    def check(self, made: Variant, schedule: ScheduleDecl | None) -> None:
        """Raises NotVerified. What was checked is noted: other sizes are not proven by that."""
        from ..codegen.verify.verify_program import smaller_sizes, verify

        called = "the compiler's own schedule" if schedule is None else f"schedule `{schedule.name}`"
        span = None if schedule is None else schedule.span
        found, instead = verify(made.program, self.special, called, span), ""
        less = smaller_sizes(self.sizes)
        if not found.checked and less != self.sizes:
            instead = f" of {', '.join(f'{n}={x}' for n, x in less.items())}, since those asked for are too large"
            try:
                op = specialise(self.op, less)
                other = compile_program(self.module, op, schedule, self.device, schedule_parameters(schedule, self.values))
                found = verify(other.program, op, called, span)
            except UserError as error:
                instead = f"; smaller sizes are refused ({error.id})"
        made.facts["notes"] = (*made.facts.get("notes", ()), f"each point counts once: {found}{instead}")

    def passes(self, texts: bool = True) -> tuple[CompiledProgram, list[PassRecord]]:
        """What each pass of the compiler makes of the first schedule, and how long it takes."""
        schedule = self.schedules[0]
        return record_passes(
            self.module, self.special, schedule, self.device, schedule_parameters(schedule, self.values), texts
        )

    def emitted(self, program: Program) -> str:
        """The text of a program, in the dialect of the target."""
        return emit(program, self.target.family.dialect, (too_small_for_threads(self.special),))

    def compile_text(self, text: str, schedules: Sequence[str], given: Mapping[str, int]) -> Kernel:
        """The kernel that a file with this text of a module, these schedules and sizes will hold."""
        return compile_text(text, self.op.name, schedules, self.target.name, given)

    @staticmethod
    def from_text(
        text: str, op: str, schedule: str | None, target: str, threads: int | None, given: Mapping[str, int]
    ) -> CompileRequest:
        """The request that these texts and numbers make, on whatever machine."""
        return resolve_request(loads(text, "<task>"), op, schedule, target, threads, given)

    def kernel(self, variants: Sequence[Variant], tuned: TunedSchedule | None = None) -> Kernel:
        """A kernel of these variants, which tuning may have found."""
        if self.target.family.launcher == "driver":
            from .gpu.kernel import DeviceKernel

            return DeviceKernel(self.op, variants, self.sizes, request=self, tuned=tuned)
        return Kernel(self.op, variants, self.sizes, self.threads, request=self, tuned=tuned)


def compile(
    mod: Module | str | os.PathLike[str],
    op: str | None = None,
    schedule: str | ScheduleDecl | Schedule | None = None,
    target: str | None = None,
    threads: int | None = None,
    tune: int | None = None,
    checks: bool | int = True,
    verify: bool | int = False,
    *,
    tuned: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    params: Mapping[str, int] | None = None,
    **named: int,
) -> Kernel:
    """Compiles an op to a kernel for a target. No native code is built before the first call, unless `tune` asks for
    measurements.

    mod       a module, the path of a file, or a text. A string is a text if it has a line break, or begins with `op `
    op        the name of the op. It may be left out if there is one op, or if `schedule` says which
    schedule  the name of a schedule of the module, a text, or a `Schedule`. "auto" asks for the compiler's own schedule. None
              tries the module's schedules for this op that fit the device, in their order, and after them the compiler's own
    target    `cpu` for this machine, `cpu:avx2`, `cuda:sm_80`, `emulate:sm_80`, or a device of the module. None compiles for
              the place where the arrays of a call live: this machine, or one of its GPUs
    threads   how many threads may take part in a call. Schedules are chosen for this number. None is all cores
    tune      None uses what earlier tuning found, if anything, unless `ANDIRON_TUNED` is 0. 0 does not use it. N measures N
              candidates where no earlier search had as many, see `Kernel.tune`
    checks    False leaves out the checks of accesses under the emulator, which takes less than half of the time
    verify    True checks every compiled program at several small sizes: it computes what its op says, each point once. A check
              takes some seconds. `report.notes` lists the sizes and what was left out
    tuned     a database of measurements, as a path or a URL: the fastest schedule measured for these sizes is used, otherwise
              the one for the nearest sizes that fits. None is the database that `ANDIRON_TUNED` names, if it names one
    sizes     sizes by name, as `{"M": 512}`, for a size that has the name of an argument of this function
    params    values of parameters by name. `sizes`, `params` and keywords are read alike. A name stands in one of them only
    named     sizes of the op, values of its integer parameters, and values of parameters of the schedule. A size that is not
              given stays open

    Returns a `Kernel`.

    Raises the diagnostics of the text, those of the schedule, and these:

    NoSuchFile                no file has the path
    NotInModule               no op or no schedule has the name
    AmbiguousChoice           there are several ops, and nothing says which
    WrongSchedule             the schedule is for another device or for other sizes, or its text does not hold one schedule
    UnknownTarget             no target has the name
    NoDevice                  the target is a GPU of this machine, and there is none
    NotEmulated               `checks=False` for a target that is not emulated
    ArgumentKind              an argument has the wrong type
    ArgumentCount             a size or a parameter is given twice
    UnknownSize               no size and no parameter has the name
    MissingParameter          a parameter without a default has no value
    BadSize                   a size is negative, or no integer of 64 bits
    ConditionFailed           a condition of the op does not hold for the sizes
    SizeOverflow              a tensor would have 2^63 elements or more
    NotVerified               `verify` found that a program is wrong. Andiron is at fault
    CannotTune, NothingRight  see `Kernel.tune`
    NoDatabase                there is no database at `tuned`. ForeignDatabase, DamagedDatabase, DatabaseFailed or NoPackage: it
                              cannot be read
    """
    if tune is not None:
        expect_count("tune", tune, 0, "how many candidates to measure")
    expect("tuned", tuned, (str, os.PathLike, type(None)), "a database of measurements: a path or a URL")
    expect_flag("checks", checks)
    expect_flag("verify", verify)
    request = replace(
        resolve_request(mod, op, schedule, target, threads, merge_values(named, sizes, params)), verify=bool(verify)
    )
    if not checks:
        if request.target.family.launcher != "emulator":
            raise NotEmulated(
                f"{request.target.name} has no checks to turn off", help="`checks=False` is for `emulate:` targets"
            )
        request = replace(request, checks=False)
    if target is None:
        module, fixed = request.module, dict(request.given)
        there = DeviceKernels(
            lambda name: compile(module, op, schedule, name, tune=tune, checks=checks, verify=verify, tuned=tuned, sizes=fixed)
        )
        request = replace(request, elsewhere=there)
    kernel = (load_tuned(request, tune or 0, tuned) if tune != 0 else None) or compile_untuned(request)
    if tune and kernel.tuned is None:
        kernel.tune(top=tune)
    return kernel


def compile_text(
    text: str, op: str, schedules: Sequence[str], target: str, given: Mapping[str, int], threads: int | None = None
) -> Kernel:
    """A kernel with one variant for each of these explicit schedules. `text` is that of a module. No variant is built."""
    module = loads(text, "<saved>")
    kernels = [compile(module, op, s, target, threads, tune=0, sizes=given) for s in schedules]
    first = kernels[0]
    return Kernel(first.op, [k.variants[0] for k in kernels], first.sizes, first.threads, request=first.request)


def compile_without_text(mod: Module, op: str | None, schedule: str, target: str) -> Kernel:
    """As `compile`, without its text: for who asks what a schedule does, as often as someone types."""
    request = resolve_request(mod, op, schedule, target)
    return request.kernel([request.variant(s, emit=lambda *_: "") for s in request.schedules])


def compile_untuned(request: CompileRequest, tuned: TunedSchedule | None = None) -> Kernel:
    """The kernel by the schedules as they are; `tuned`: a search that found none faster.

    The author's mistakes are said now; what the compiler adds for some sizes is compiled when they come.
    """
    variants = KernelVariants([partial(request.variant, s) for s in request.schedules])
    for i, s in enumerate(request.schedules):
        if i == 0 or (s is not None and s.name in request.module.schedules):
            variants[i]
    return request.kernel(variants, tuned)


def load_tuned(request: CompileRequest, count: int = 0, tuned: str | os.PathLike[str] | None = None) -> Kernel | None:
    """The kernel as tuning found it, if it was tuned among at least `count` candidates. None too where it may not be used.

    With a database, `tuned` or the one that `ANDIRON_TUNED` names, the kernel that its measurements suggest. A note says where
    they suggest none.
    """
    where = named_database() if tuned is None else tuned
    if where is None:
        return _load_stored(request, count)
    from .tuning.database.choose import choose_kernel

    kernel, note = choose_kernel(request, where, tuned is not None, partial(_load_stored, request, count), near=count == 0)
    return kernel or compile_untuned(replace(request, notes=request.notes | {note}))


def _load_stored(request: CompileRequest, count: int, note: str = "") -> Kernel | None:
    found = load_record(request) if is_allowed() else None
    request = replace(request, notes=request.notes | {note}) if note else request
    if found is None or found.asked < count:
        return None
    return compile_untuned(request, found) if found.schedule is None else found.kernel(request)


def resolve_request(
    mod: Module | str | os.PathLike[str],
    op: str | None = None,
    schedule: str | ScheduleDecl | Schedule | None = None,
    target: str | None = None,
    threads: int | None = None,
    given: Mapping[str, int] | None = None,
) -> CompileRequest:
    """The names and texts given to `compile`, looked up. Raises what `compile` raises but for the compiler's diagnostics."""
    module, given = as_module(mod), dict(given or {})
    sizes = dict(given)
    expect("op", op, (str, type(None)), "the name of an op")
    expect("schedule", schedule, (str, ScheduleDecl, Schedule, type(None)), "a schedule: its name, a text, or a `Schedule`")
    expect("target", target, (str, type(None)), "the name of a target")
    known = Lineages(module)
    goal = target_of("cpu" if target is None else target, known)
    if goal.device is None and goal.family.launcher == "driver":
        goal = target_of(attached_target(goal.name, known), known)
    device = device_of(goal, module)
    own = schedule == "auto"
    named = None if own else _schedule(module, schedule)
    chosen = _op(module, op, named)
    if named is not None and not is_for_device(named, device, module):
        raise WrongSchedule(
            f"schedule `{named.name}` is for {named.device}; the target {goal.name} is {device.name}",
            named.span,
            help=f"compile for the target it names, or leave `on {named.device}` out",
        )
    # what is no number is refused later
    known_sizes = {name: n for name, n in {**dict(chosen.params), **sizes}.items() if type(n) is int}
    if named is not None and without_decided_bounds(named, known_sizes) is None:
        raise WrongSchedule(f"schedule `{named.name}` is not for these sizes: its `where` excludes them", named.span)
    if named is not None:
        candidates = [without_decided_bounds(named, known_sizes)]
    else:
        candidates = list(_candidates([] if own else schedules_for(module, chosen.name), module, chosen, device, known_sizes))
    names = {name for name, _ in chosen.params} | {v.name for v in chosen.dims}
    tunables = {name for s in candidates for name in parameters(s)} - names
    values = {name: sizes.pop(name) for name in list(sizes) if name in tunables}
    for name, value in values.items():
        expect(name, value, Integral, "a value of that parameter, an integer")
    refuse_unknown(chosen, sizes, tunables)
    bound = bind_params(chosen, {name: sizes.pop(name) for name, _ in chosen.params if name in sizes})
    special = specialise(bound, sizes)
    fixed = {name: int(value) for name, value in sizes.items()}
    count = None if threads is None else checked_threads(threads)
    if goal.family.launcher == "ctypes" and (count or goal.device is None):
        device = device.taking_part(count or default_threads())  # what is chosen is chosen for these
    notes = frozenset(skipped_schedules_note(module, chosen, device) if named is None and not own else ())
    return CompileRequest(module, bound, special, device, goal, named, tuple(candidates), given, fixed, values, count, notes)


def as_module(mod: Module | str | os.PathLike[str]) -> Module:
    """A module as it is, the module of a path, or of text (a string with a line break, or that begins with `op`)."""
    if isinstance(mod, Module):
        return mod
    expect("mod", mod, (str, os.PathLike), "a module, the path of a file, or a text")
    if isinstance(mod, str) and ("\n" in mod or (mod.startswith("op ") and not mod.endswith(".sched"))):
        return loads(mod)
    return load(mod)


def variant(
    module: Module,
    op: Op,
    schedule: ScheduleDecl | None,
    device: Device,
    target: Target,
    values: Mapping[str, int],
    emit: Callable[..., str] = emit,
    checks: bool = True,
) -> Variant:
    """One op, one schedule, one device: compiled to text. Of `values` those count that are the schedule's parameters."""
    with postpone_collection():
        compiled = compile_program(module, op, schedule, device, schedule_parameters(schedule, values))
        text = emit(compiled.program, target.family.dialect, (too_small_for_threads(op),))
    made = Variant
    if target.family.launcher == "emulator":
        from .emulator.variant import EmulatedVariant as made
    return made(compiled.program, text, compiled.schedule, target, compiled.report, compiled.steps, checks)


def _candidates(
    written: Sequence[ScheduleDecl], module: Module, op: Op, device: Device, known: Mapping[str, int]
) -> Iterator[ScheduleDecl | None]:
    """What was written down to the first that fits all sizes, below it the compiler's own."""
    for one in chain(written, default_schedules(op, device, known)):
        s = without_decided_bounds(one, known) if one is not None and is_default_for(one, device, module) else None
        if s is not None or one is None:
            yield s
        if one is None or (s is not None and not s.where):
            return


def _schedule(module: Module, schedule: str | ScheduleDecl | Schedule | None) -> ScheduleDecl | None:
    if isinstance(schedule, Schedule):
        return schedule.decl
    if schedule is None or isinstance(schedule, ScheduleDecl):
        return schedule
    if "\n" in schedule:
        found = [d for d in parse(Source("<schedule>", schedule)).declarations if isinstance(d, ScheduleDecl)]
        if len(found) != 1:
            raise WrongSchedule(f"the text given as a schedule has {len(found)} of them; expected one")
        return found[0]
    if schedule not in module.schedules:
        raise NotInModule(f"no schedule `{schedule}`", help=did_you_mean(schedule, module.schedules))
    return module.schedules[schedule]


def _op(module: Module, name: str | None, schedule: ScheduleDecl | None) -> Op:
    if name is None:
        if schedule is not None and schedule.op in module.ops:
            return module.ops[schedule.op]
        own = [d.name for d in module.file.declarations if isinstance(d, OpDecl)]  # rather than those of imports
        for names in (own, [*module.ops]):
            if len(names) == 1:
                return module.ops[names[0]]
        if not module.ops:
            raise NotInModule(
                "the file has no op", help="write one: `op NAME[SIZES](INPUTS) -> (OUTPUTS):`, or import a file that has it"
            )
        raise AmbiguousChoice("the file has several ops; name one", help=f"op: one of {', '.join(module.ops)}")
    if name not in module.ops:
        raise NotInModule(f"no op `{name}`", help=did_you_mean(name, module.ops))
    return module.ops[name]
