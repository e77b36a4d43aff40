"""`andiron.compile`: what is chosen, for which target, and what is said when nothing can be."""

import re

import andiron
import numpy as np
import pytest
from andiron.codegen.targets import target_of
from andiron.dsl.errors import UserError
from andiron.dsl.errors.run import DeviceMismatch, SizeRefused
from andiron.dsl.errors.target import AmbiguousChoice, NoDevice, NotInModule, UnknownTarget, WrongSchedule
from andiron.runtime.devices import device_of, extended_devices, is_for_device

SCALE = """
op scale[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = 2.0 * X[i]
"""
STRIDED = """
op strided[N](X: f32[N], step: int = 2) -> (Y: f32[P]) where P = (N + step - 1) / step:
    Y[i] = X[i * step]
"""
SCHEDULES = """
schedule small for scale where N <= 16:
    tile i: 4

schedule far for scale on cpu:nowhere:
    tile i: 8

schedule any for scale:
    param T in 8, 32
    tile i: T

schedule never for scale:
    tile i: 64
"""


def x(n):
    return np.arange(n, dtype=np.float32)


def test_from_text_path_and_module(tmp_path):
    path = tmp_path / "scale.sched"
    path.write_text(SCALE)
    for mod in (SCALE, str(path), path, andiron.loads(SCALE), andiron.load(path)):
        np.testing.assert_array_equal(andiron.compile(mod)(x(10)), 2 * x(10))


def test_open_and_fixed_sizes():
    k = andiron.compile(SCALE)
    for n in (0, 1, 7, 100):
        np.testing.assert_array_equal(k(x(n)), 2 * x(n))
    fixed = andiron.compile(SCALE, N=10)
    np.testing.assert_array_equal(fixed(x(10)), 2 * x(10))
    assert fixed.report.flops == 10
    with pytest.raises(UserError, match="N=10"):
        fixed(x(11))


def test_integer_parameters():
    np.testing.assert_array_equal(andiron.compile(STRIDED)(x(7)), x(7)[::2])
    np.testing.assert_array_equal(andiron.compile(STRIDED, step=3)(x(7)), x(7)[::3])
    with pytest.raises(UserError, match="step"):
        andiron.compile(STRIDED, step="3")


def test_schedules_are_tried_in_order():
    module = andiron.loads(SCALE + SCHEDULES.replace("schedule far for scale on cpu:nowhere:\n    tile i: 8\n", ""))
    k = andiron.compile(module)
    assert len(k.variants) == 2  # `any` takes every size, so what stands below it is not compiled
    for n in (0, 16, 17, 100):
        np.testing.assert_array_equal(k(x(n)), 2 * x(n))
    only = andiron.compile(module, schedule="small")
    np.testing.assert_array_equal(only(x(16)), 2 * x(16))
    with pytest.raises(SizeRefused, match="N <= 16"):
        only(x(17))


def test_a_schedule_by_name_and_as_text():
    module = andiron.loads(SCALE + SCHEDULES.partition("schedule far")[0])
    k = andiron.compile(module, schedule="small")
    again = andiron.compile(SCALE, schedule=k.schedule)
    np.testing.assert_array_equal(again(x(9)), 2 * x(9))
    with pytest.raises(WrongSchedule, match="has 0 of them"):
        andiron.compile(SCALE, schedule=SCALE)


def test_parameters_of_a_schedule():
    text = SCALE + "\nschedule any for scale:\n    param T in 8, 32\n    tile i: T\n"
    assert "tile i: 8" in andiron.compile(text).schedule
    wide = andiron.compile(text, T=32)
    assert "tile i: 32" in wide.schedule
    np.testing.assert_array_equal(wide(x(100)), 2 * x(100))


def test_unknown_names():
    module = andiron.loads(SCALE + STRIDED)
    with pytest.raises(NotInModule, match="did you mean `scale`"):
        andiron.compile(module, "scales")
    with pytest.raises(NotInModule, match="no schedule `x`"):
        andiron.compile(module, "scale", schedule="x")
    with pytest.raises(AmbiguousChoice, match="scale, strided"):
        andiron.compile(module)
    with pytest.raises(NotInModule, match="no op"):
        andiron.compile("\n")
    with pytest.raises(UserError, match="M"):
        andiron.compile(module, "scale", M=3)
    with pytest.raises(UnknownTarget):
        andiron.compile(module, "scale", target="cpu:none")
    with pytest.raises(UnknownTarget, match="units"):
        andiron.compile(module, "scale", target="hip:cdna")
    with pytest.raises(NoDevice):
        andiron.compile(module, "scale", target="hip:gfx90a")(np.ones(3, "f4"))


def test_devices_and_what_fits_them():
    module = andiron.loads(SCALE)
    native = device_of(target_of("cpu"), module)
    line = extended_devices(native, module)
    assert line[0] == native.name
    assert "cpu:base" in line
    schedules = andiron.loads(SCALE + "schedule a for scale on cpu:base:\n    auto\n").schedules
    assert is_for_device(schedules["a"], native, module)
    assert is_for_device(schedules["a"], device_of(target_of("cpu:neon"), module), module)


def test_a_schedule_for_another_device_is_refused():
    text = SCALE + "\nschedule a for scale on cpu:neon:\n    tile i: 4\n"
    with pytest.raises(WrongSchedule, match="cpu:neon"):
        andiron.compile(text, schedule="a", target="cpu:avx2")
    assert andiron.compile(text, target="cpu:avx2").schedule  # passed over
    assert "extern" in andiron.compile(text, schedule="a", target="cpu:neon").source


def test_text_for_other_targets_and_their_refusal_at_the_call():
    import platform

    other = "cpu:avx2" if platform.machine() in ("aarch64", "arm64") else "cpu:neon"
    k = andiron.compile(SCALE, target=other)
    assert "extern" in k.source
    with pytest.raises(DeviceMismatch):
        k(x(3))
    np.testing.assert_array_equal(andiron.compile(SCALE, target="cpu:generic")(x(9)), 2 * x(9))


def test_embedded():
    k = andiron.op("""
        op scale[N](X: f32[N]) -> (Y: f32[N]):
            Y[i] = 2.0 * X[i]
    """)
    np.testing.assert_array_equal(k(x(3)), 2 * x(3))

    @andiron.kernel(SCALE)
    def twice(X):
        """Twice as much."""

    np.testing.assert_array_equal(twice(x(3)), 2 * x(3))
    np.testing.assert_array_equal(twice(X=x(3)), 2 * x(3))
    out = np.empty(3, np.float32)
    assert twice(x(3), out=out, threads=1) is out
    assert twice.__name__ == "twice"
    assert twice.__doc__ == "Twice as much."
    assert isinstance(twice.kernel, andiron.Kernel)
    with pytest.raises(TypeError):
        twice()


def test_the_reference_is_public():
    module = andiron.loads(SCALE)
    np.testing.assert_array_equal(andiron.reference(module.ops["scale"])(x(3)), 2 * x(3))


def test_a_device_of_the_author():
    text = SCALE + "\ndevice cpu:mine extends cpu:generic:\n    level core: finite 2\n"
    k = andiron.compile(text, target="cpu:mine")
    np.testing.assert_array_equal(k(x(9)), 2 * x(9))
    assert k.report.device == "cpu:mine"
    with pytest.raises(UnknownTarget, match="cpu:mine"):
        andiron.compile(text, target="cpu:min")


def test_sizes_fixed_at_compile_time_decide_the_conditions_of_schedules():
    bounded = SCALE + "\nschedule small for scale where N <= 16:\n    tile i: 4\n"
    (only,) = andiron.compile(bounded, N=16).variants
    assert "schedule small for scale:" in only.schedule
    (other,) = andiron.compile(bounded, N=17).variants
    assert "small" not in other.schedule
    assert [v.schedule.split()[1] for v in andiron.compile(bounded).variants] == ["small", "scale_auto"]
    with pytest.raises(WrongSchedule, match="not for these sizes"):
        andiron.compile(bounded, schedule="small", N=17)


def test_a_text_of_one_line_is_no_path():
    assert andiron.compile("op twice[N](X: f32[N]) -> (Y: f32[N]): Y[i] = 2.0 * X[i]").op.name == "twice"


def test_what_is_chosen_is_chosen_for_the_threads_that_take_part(monkeypatch):
    """One thread packs the image once, for all filters; many split the filters."""
    sizes = {"N": 1, "C": 512, "H": 7, "W": 7, "O": 512, "R": 3, "S": 3, "stride": 1, "pad": 1}

    def filters(target: str, threads: int | None) -> int:
        """How many a core computes at a time."""
        made = andiron.compile("import std.ops.conv\n", op="conv2d", target=target, threads=threads, **sizes)
        return int(re.search(r"tile .*\bo: (\d+).* -> core", made.schedule)[1])

    assert filters("cpu:avx512", 1) >= 512 > filters("cpu:avx512", None) >= filters("cpu:avx512", 64)
    monkeypatch.setenv("ANDIRON_THREADS", "1")
    assert filters("cpu", None) == filters("cpu", 1)
    assert filters("cpu:avx512", None) < 512  # the text for another machine is the same everywhere


def test_a_schedule_that_speaks_of_other_levels_is_passed_over():
    """The first of the file that suits the device, else the compiler's own; asked for by name it is an error."""
    text = """\
op double[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = X[i] * 2.0
schedule for_cpus for double:
    tile i: 64 -> core
schedule for_gpus for double:
    tile i: 64 -> block
"""
    on_gpu = andiron.compile(text, target="cuda:sm_80")
    assert "for_gpus" in on_gpu.schedule
    assert "for_cpus" in andiron.compile(text, target="cpu:generic").schedule
    only = text.partition("schedule for_gpus")[0]
    own = andiron.compile(only, target="cuda:sm_80")
    assert "for_cpus" not in own.schedule
    assert any("no schedule for double is for sm_80" in note and "`for_cpus`" in note for note in own.notes)
    with pytest.raises(UserError, match="core"):
        andiron.compile(only, schedule="for_cpus", target="cuda:sm_80")


def test_a_misspelt_level_is_no_reason_to_pass_a_schedule_over():
    text = "op double[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] * 2.0\nschedule s for double:\n    tile i: 64 -> coer\n"
    with pytest.raises(UserError, match="coer"):
        andiron.compile(text, target="cpu:generic")
