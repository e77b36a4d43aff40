"""Texts to modules: `load(path)`, `loads(text)`. Imports are followed, ops and devices resolved, all mistakes collected.

The names of an imported file, and of the files that it imports, become names of the importing module. Devices of the
standard library need no import.

OWN_OP   a module's own op replaces an imported one of its name: imported schedules are then for it, and a schedule changes no
         result. Names that change the meaning of others (strategies, devices, schedules) are declared once.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from . import syntax
from .device import Device
from .devices.resolve_device import resolve_devices
from .errors import module as errors
from .errors.base import Diagnostics, Label, UserError, did_you_mean
from .op import Op
from .ops.resolve_op import resolve_op
from .source import Source, Span
from .stdlib_files import std_bytes, std_devices, std_names
from .support.expected import expect
from .text.parser import decode, parse, parse_file, read_bytes

MOST_IMPORTS = 50  # one inside the other
_KINDS = (
    ("op", syntax.OpDecl),
    ("device", syntax.DeviceDecl),
    ("schedule", syntax.ScheduleDecl),
    ("strategy", syntax.StrategyDecl),
)


@dataclass(frozen=True, eq=False)
class Module:
    """The declarations of a text, by name and in their order. Imported ones come first.

    name        the name under which errors show the text
    file        the syntax tree of the text
    ops         ops by name
    devices     devices that the text declares or imports, by name
    schedules   the syntax trees of schedules, by name
    strategies  the syntax trees of strategies, by name
    path        the path of the file; None for a text
    declared    the syntax trees of all declarations, by kind ("op", "device", "schedule", "strategy") and name
    """

    name: str
    file: syntax.File
    ops: Mapping[str, Op]
    devices: Mapping[str, Device]
    schedules: Mapping[str, syntax.ScheduleDecl]
    strategies: Mapping[str, syntax.StrategyDecl]
    path: Path | None = None
    declared: Mapping[tuple[str, str], syntax.Decl] = field(default_factory=dict, repr=False)  # by kind and name

    def __repr__(self) -> str:
        kinds = {"ops": self.ops, "devices": self.devices, "schedules": self.schedules, "strategies": self.strategies}
        return f"<module {self.name}" + "".join(f"; {kind}: {', '.join(names)}" for kind, names in kinds.items() if names) + ">"

    def device(self, name: str, span: Span | None = None) -> Device:
        """Looks up a device: of this module, of its imports, or of the standard library.

        name  its name, as `sm_80` or `cpu:avx2`
        span  the place that an error points to, or None

        Returns a `Device`.

        Raises UnknownDevice if no device has the name.
        """
        found = self.devices.get(name) or std_device(name)
        if found is None:
            known = {*self.devices, *std_devices()}
            family = [f"`{d}`" for d in sorted(known) if d.startswith(f"{name}:")]
            if name.endswith(":native") or (family and not name.partition(":")[2]):
                here = f"leave `on {name}` out: a schedule that names no device is for this machine"
                help = here + (f"; there are {', '.join(family)}" if family else "")
            else:
                help = did_you_mean(name, known)
            raise errors.UnknownDevice(f"no device is called `{name}`", span, help=help)
        return found


def load(path: str | os.PathLike[str]) -> Module:
    """Reads a file of ops, devices and schedules, and the files that it imports.

    path  the path of a `.sched` file, in UTF-8

    Returns a `Module`.

    Raises NoSuchFile if the file cannot be read. Raises ArgumentKind if `path` is no path. Raises the diagnostics of the text:
    a `UserError`, or `UserErrors` for several.
    """
    expect("path", path, (str, os.PathLike), "the path of a `.sched` file")
    return _Loading().file(Path(path), None)


def loads(text: str, name: str = "<string>", base: str | os.PathLike[str] | None = None, *, line_offset: int = 0) -> Module:
    """Reads a text of ops, devices and schedules, and the files that it imports.

    text         the text
    name         the name under which errors show the text
    base         the folder that relative imports start from. None allows no such import
    line_offset  the number of lines above the text in the file `name`, for a text embedded in a program

    Returns a `Module`.

    Raises ArgumentKind if an argument has the wrong type. Raises ImportWithoutBase if the text imports a file and `base` is
    None. Raises the diagnostics of the text: a `UserError`, or `UserErrors` for several.
    """
    help = "decode them: `text.decode()`" if isinstance(text, bytes) else None
    expect("text", text, str, "a text", help)
    expect("name", name, str, "the name under which errors show the text")
    expect("base", base, (str, os.PathLike, type(None)), "a folder")
    expect("line_offset", line_offset, int, "a number of lines")
    return _Loading().text(Source(name, text, line_offset), None if base is None else Path(base), None)


def load_with_mistakes(
    path: str | os.PathLike[str] | None = None, text: str | None = None, name: str = "<string>", base: str | None = None
) -> tuple[Module, Diagnostics]:
    """The module of a file or of a text as far as it goes, and its mistakes: for tools that report all of them at once.

    Raises a `UserError` where there is no module at all: no such file, mistakes of syntax.
    """
    loading = _Loading()
    if text is not None:
        return loading.partly(Source(name, text), None if base is None else Path(base), None)
    assert path is not None
    return loading.whole(Path(path))


def std_device(name: str) -> Device | None:
    """A device of the standard library."""
    module = std_devices().get(name)
    return None if module is None else std_module(module).devices.get(name)


def std_roots() -> list[Device]:
    """The devices of the standard library that extend no other."""
    found = [std_device(name) for name in std_devices()]
    return [d for d in found if d is not None and d.decl is not None and not d.decl.extends]


@cache
def std_module(name: str) -> Module:
    """`ops.gemm` to the module of `stdlib/ops/gemm.sched`."""
    return _Loading().text(decode(std_bytes(name), f"std/{name.replace('.', '/')}.sched"), None, None)


class _Loading:
    """One call of `load`: each file is read once."""

    def __init__(self) -> None:
        self.done: dict[Path, Module | UserError] = {}
        self.open: list[Path] = []  # the chain of files being loaded, outermost first

    def file(self, path: Path, at: Span | None) -> Module:
        real, data = self.read(path, at)
        if data is not None:
            self.open.append(real)
            try:
                self.done[real] = self.text(decode(data, str(path)), path.parent, real)
            except UserError as error:
                self.done[real] = error
                raise
            finally:
                self.open.pop()
        result = self.done[real]
        if isinstance(result, UserError):
            raise result
        return result

    def whole(self, path: Path) -> tuple[Module, Diagnostics]:
        """A file that nothing imports."""
        real, data = self.read(path, None)
        self.open.append(real)
        return self.partly(decode(data or b"", str(path)), path.parent, real)

    def read(self, path: Path, at: Span | None) -> tuple[Path, bytes | None]:
        """Where a file really is, and what is in it (None: it is loaded already)."""
        try:
            real = path.resolve()
            if real in self.done:
                return real, None
            with real.open("rb") as file:
                return real, read_bytes(file, str(path))
        except IsADirectoryError:
            raise no_file(path, at) from None
        except (OSError, ValueError, RuntimeError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) and fault.strerror else "it cannot be read"
            raise errors.NoSuchFile(f"{path}: {reason[0].lower()}{reason[1:]}", at, help=similar_file(path, bool(at))) from None

    def text(self, source: Source, base: Path | None, path: Path | None) -> Module:
        module, diagnostics = self.partly(source, base, path)
        diagnostics.raise_if_any()
        return module

    def partly(self, source: Source, base: Path | None, path: Path | None) -> tuple[Module, Diagnostics]:
        diagnostics = Diagnostics()
        file = parse(source) if path is None else parse_file(source)
        own = [d for d in file.declarations if not isinstance(d, syntax.Import)]
        names = _Names(diagnostics, frozenset(d.name for d in own if isinstance(d, syntax.OpDecl)))
        whole = True  # whether every import could be had
        for declaration in file.declarations:
            if isinstance(declaration, syntax.Import):
                try:
                    names.take(self.imported(declaration, base), declaration)
                except UserError as error:
                    diagnostics.add(error)
                    whole = False
        for declaration in own:
            names.declare(declaration)
        names.resolve_ops(own)
        if whole:
            names.resolve_devices(own)
        of = names.values
        module = Module(
            source.name, file, of["op"], of["device"], of["schedule"], of["strategy"], path=path, declared=names.declared
        )
        return module, diagnostics

    def imported(self, declaration: syntax.Import, base: Path | None) -> Module:
        span = declaration.span
        if declaration.std:
            name = declaration.path.removeprefix("std.")
            if name not in std_names():
                known = [f"std.{n}" for n in std_names()]
                raise errors.NoSuchStdModule(
                    f"the standard library has no `{declaration.path}`", span, help=did_you_mean(declaration.path, known)
                )
            return std_module(name)
        path = _inside(declaration, base)
        real = path.resolve()
        if real in self.open:
            circle = " -> ".join(p.name for p in [*self.open[self.open.index(real) :], real])
            raise errors.ImportCycle(
                f"these files import each other: {circle}", span, help="move what both need to a third file"
            )
        if len(self.open) >= MOST_IMPORTS:
            raise errors.ImportTooDeep(f"more than {MOST_IMPORTS} files import one another in a row", span)
        return self.file(path, span)


def _inside(declaration: syntax.Import, base: Path | None) -> Path:
    """The path of an import, if it may be read."""
    span, text = declaration.span, declaration.path
    if base is None:
        raise errors.ImportWithoutBase(
            f'this text comes from no file, so `import "{text}"` starts nowhere',
            span,
            help='say where: `loads(text, base="folder")`',
        )
    parts = PurePosixPath(text).parts
    if not parts or ".." in parts or text.startswith(("/", "~")) or "\\" in text or ":" in text or "\0" in text:
        raise errors.ImportOutside(
            f'`import "{text}"` leaves the folder of this text',
            span,
            help="import from this folder and those below, with `/` between",
        )
    if not text.endswith(".sched"):
        raise errors.ImportNotSched(
            f"`{text}` is no `.sched` file", span, help=f'write `import "{text}.sched"`, if that is its name'
        )
    path = base.joinpath(*parts)
    try:
        inside = path.resolve().is_relative_to(base.resolve())
    except (OSError, RuntimeError):
        inside = True  # reading it will tell what is wrong
    if not inside:
        raise errors.ImportOutside(
            f"a link leads `{text}` out of the folder of this text", span, help="put the file itself there"
        )
    return path


def no_file(folder: Path, at: Span | None = None) -> errors.NoSuchFile:
    """For a folder in the place of a file."""
    there = sorted(f"`{folder / p.name}`" for p in folder.glob("*.sched"))
    way_out = f"name its files: {', '.join(there[:8])}{', ...' * (len(there) > 8)}" if there else "name a `.sched` file"
    return errors.NoSuchFile(f"{folder} is a folder, not a file", at, help=way_out)


def similar_file(path: Path, imported: bool = False) -> str | None:
    """What may be meant by the path of a file that is not there: one of that folder."""
    start = "imports start from the folder of the importing file" if imported else None
    try:
        there = [p.name.removesuffix(".sched") for p in path.parent.iterdir() if p.suffix == ".sched"]
    except (OSError, ValueError):
        return start
    near = difflib.get_close_matches(path.name.removesuffix(".sched"), there, n=1)
    return f"did you mean `{near[0]}.sched`?" if near else did_you_mean("", [f"{n}.sched" for n in there]) or start


class _Names:
    """The names of a module as they come in: from imports, then its own."""

    def __init__(self, diagnostics: Diagnostics, ops: frozenset[str]) -> None:
        """`ops`: those that the module itself declares."""
        self.diagnostics, self.ops = diagnostics, ops
        self.declared: dict[tuple[str, str], syntax.Decl] = {}
        self.values: dict[str, dict[str, Any]] = {kind: {} for kind, _ in _KINDS}

    def take(self, module: Module, by: syntax.Import) -> None:
        """All names of an imported module. The same declaration may come in by two ways."""
        for (kind, name), declaration in module.declared.items():
            if kind == "op" and name in self.ops:  # OWN_OP
                continue
            known = self.declared.get((kind, name))
            if known is not None and known is not declaration and known.span != declaration.span:
                self.diagnostics.add(
                    errors.DuplicateDeclaration(
                        f"two imports declare {kind} `{name}`",
                        by.span,
                        labels=[Label(known.span, "one is here"), Label(declaration.span, "the other is here")],
                        help="import one of the files, or rename one of them",
                    )
                )
                continue
            self.declared[kind, name] = declaration
            table: Mapping[str, Any] = {
                "op": module.ops,
                "device": module.devices,
                "schedule": module.schedules,
                "strategy": module.strategies,
            }[kind]
            self.values[kind][name] = table[name]

    def declare(self, declaration: Any) -> None:
        kind = next(kind for kind, cls in _KINDS if isinstance(declaration, cls))
        known = self.declared.get((kind, declaration.name))
        if known is not None:
            self.diagnostics.add(
                errors.DuplicateDeclaration(
                    f"{kind} `{declaration.name}` is declared twice",
                    declaration.span,
                    labels=[Label(known.span, "first here")],
                    help="rename one of them",
                )
            )
            return
        self.declared[kind, declaration.name] = declaration
        if kind in ("schedule", "strategy"):
            self.values[kind][declaration.name] = declaration

    def _mine(self, own: list[Any], kind: str) -> list[Any]:
        """Those of a module's own declarations that have their name."""
        return [d for d in own if self.declared.get((kind, d.name)) is d]

    def resolve_ops(self, own: list[Any]) -> None:
        for declaration in self._mine(own, "op"):
            try:
                self.values["op"][declaration.name] = resolve_op(declaration)
            except UserError as error:
                self.diagnostics.add(error)

    def resolve_devices(self, own: list[Any]) -> None:
        """Own devices over imported ones; a parent may also be any device of the standard library."""
        mine = self._mine(own, "device")
        known = dict(self.values["device"])
        names = {d.name for d in mine}
        for declaration in mine:
            parent = declaration.extends
            if parent is not None and parent not in known and parent not in names and (found := self._std(parent)):
                known[parent] = found
        try:
            self.values["device"] |= resolve_devices(mine, known)
        except UserError as error:
            self.diagnostics.add(error)

    def _std(self, name: str) -> Device | None:
        try:
            return std_device(name)
        except UserError as error:  # a fault of the library's text, reported as it is
            self.diagnostics.add(error)
            return None
