"""Mistakes at the call of a kernel: arguments, sizes, `out`."""

from __future__ import annotations

from .base import UserError


class ArgumentCount(UserError):
    """Too few or too many arguments, or one under a name that the op does not have.

    A kernel takes its op's input tensors in the order of the declaration, then by keyword only `out` and `threads`.
    """

    id = "argument-count"


class ArgumentKind(UserError):
    """An argument of a wrong kind. In a call of a kernel: an argument that is not an array the kernel can read.

    A kernel takes NumPy arrays, and arrays with `__dlpack__` or `__array__` whose memory the target reaches. A list is not
    converted silently, because it would cost a copy and choose a type. Pass `numpy.asarray(list, dtype)`.
    """

    id = "argument-kind"


class ArgumentType(UserError):
    """An array of another element type than the op declares, or a number that this type cannot hold.

    There is no silent conversion, because it could lose digits. Convert with `.astype`, or change the op. A number of
    Python's is rounded to the precision of a float type.
    """

    id = "argument-type"


class ArgumentShape(UserError):
    """An array of the wrong rank, or whose sizes contradict those of another argument, or a size fixed at compile time.

    The message names the expected shape and its source. Reshape the array, or leave the size open when compiling.
    """

    id = "argument-shape"


class SizeRefused(UserError):
    """Sizes that the op or the schedule excludes.

    A derived size is negative, a condition after `where` does not hold, or an array would be larger than memory can address.
    """

    id = "size-refused"


class OutputReadOnly(UserError):
    """`out` cannot be written: the array is read-only, or it is a view that a kernel cannot write through.

    Pass memory that can be written, such as `numpy.empty(shape, dtype)`, or leave `out` out.
    """

    id = "output-read-only"


class OutputOverlap(UserError):
    """`out` shares memory with another argument in a way that would change the result.

    It may be an input itself when the op reads that input only at the index being written, as `beta * C[m, n]` in a product.
    """

    id = "output-overlap"


class DeviceMismatch(UserError):
    """The array lives on another device than the kernel runs on, or this machine cannot execute the kernel's target.

    Copy the array to the kernel's device, or compile for a target of this machine.
    """

    id = "device-mismatch"


class SignatureDiffers(UserError):
    """A function under `@andiron.kernel` whose parameters are not the op's inputs.

    They must have the same names; their order may differ.
    """

    id = "signature-differs"


class CannotSave(UserError):
    """A kernel that a file cannot hold: one for a GPU, or for the emulator. No kernel can be pickled.

    Kernels for CPUs can be saved. `andiron build` writes the code of other kernels.
    """

    id = "cannot-save"


class DamagedFile(UserError):
    """A damaged or changed file of Andiron's, or a file of another kind.

    A saved kernel has a checksum over all of it, so nothing of such a file is run. Copy it again, or save the kernel again.
    """

    id = "damaged-file"


class SavedElsewhere(UserError):
    """A saved kernel that is not for this machine, or was made by another version.

    Its code is native and belongs to one machine type and one version, so nothing of it is run. Save the kernel again, on such
    a machine.
    """

    id = "saved-elsewhere"


class CannotTune(UserError):
    """The schedule has nothing open, or the target cannot be measured.

    A schedule is open by `auto`, by missing lines, or by `param`. `schedule="auto"`, on the command line `--schedule auto`, is
    the compiler's own. Times under the emulator say nothing about the GPU.
    """

    id = "cannot-tune"


class NothingRight(UserError):
    """No candidate, the old schedule included, ran with right results.

    The message describes the first. `andiron run` with the same options shows more.
    """

    id = "nothing-right"


class VersionsDiffer(UserError):
    """A worker of a cluster has another version of Andiron than the program that gives it tasks.

    Times of different versions cannot be compared, and their tasks cannot be exchanged. Install the same version everywhere.
    """

    id = "versions-differ"


class ExecutorFailed(UserError):
    """An executor, or the scheduler of a cluster, does not work any more: it broke, it cannot be reached, or its workers give
    no answer.

    Results that came are in the database of measurements. Start the cluster again, and give the same tasks again: only those
    that are missing are measured.
    """

    id = "executor-failed"


class BadTaskFile(UserError):
    """A mistake in a file of tuning tasks.

    The message names it. `docs/howto/cluster.md` describes the file.
    """

    id = "bad-task-file"


class BadModel(UserError):
    """MODULE of `andiron tasks --from-torch` names no model.

    It is `package.module:function`, `file.py:function`, or a `.pt2` file of `torch.export.save`. The function has no arguments.
    It returns a `torch.nn.Module` and example inputs: a tensor, a tuple of tensors, or a dictionary of them by name.
    """

    id = "bad-model"


class CannotExport(UserError):
    """PyTorch cannot export a model, or cannot read an exported one.

    The message has PyTorch's first words. `ANDIRON_DEBUG=1` shows the rest. The manual of `torch.export` says what a model may
    do.
    """

    id = "cannot-export"


class NoPackage(UserError):
    """An optional package is not installed, or cannot be imported.

    An extra of Andiron installs it, and the help names the extra. Of one that is installed and broken, the message says what
    its import says.
    """

    id = "no-package"
