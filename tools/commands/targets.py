"""List the targets, those that this machine can execute, and the compiler of each."""

from __future__ import annotations

import argparse
from typing import Any

from ...dsl.errors import UserError
from ...dsl.errors.target import NoDevice
from ..options import add_json
from ..terminal import say_json

NAME = "targets"
HELP = "list the targets and their compilers"
EXAMPLES = ("andiron targets",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ...codegen.targets import MACHINES
    from ...runtime.gpu.toolchains import toolchain_versions
    from ...runtime.native import cpu_features
    from ...runtime.native.cxx_compiler import find_compiler

    rows: list[dict[str, Any]] = [{"target": "cpu", "runs here": True, "note": "this machine"}]
    for machine in MACHINES.values():
        lacking = cpu_features.missing(machine)
        rows.append(
            {"target": machine.device, "runs here": not lacking, "note": f"lacks {', '.join(lacking)}" if lacking else ""}
        )
    gpus = {family: _gpus(family) for family in ("cuda", "hip")}
    rows += _gpu_rows(gpus)
    try:
        compiler = str(find_compiler())
    except UserError as error:
        compiler = error.message
    tools = {family: toolchain_versions(family) for family in gpus}
    if args.json:
        say_json({"targets": rows, "compiler": compiler, "cores": cpu_features.usable_cores(), "gpus": gpus, "tools": tools})
        return 0
    for row in rows:
        print(f"{row['target']:<16} {'runs here' if row['runs here'] else '-':<10} {row['note']}".rstrip())
    print(f"compiler: {compiler}\ncores: {cpu_features.usable_cores()}")
    for family, found in gpus.items():
        print(f"{family}: {', '.join(found) or 'no GPU'}; built by {', '.join(tools[family]) or 'nothing that is here'}")
    return 0


def _gpus(family: str) -> list[str]:
    """The GPUs of this machine by the names that compilers know."""
    from ...runtime.gpu.driver import find_driver

    try:
        driver = find_driver(family)
        return [driver.arch(n) for n in range(driver.count())]
    except NoDevice:
        return []


def _gpu_rows(gpus: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Every device of the library with blocks and units, in each family that it is of, and emulated."""
    from ...codegen.targets import FAMILIES
    from ...dsl.module import std_device, std_module
    from ...dsl.stdlib_files import std_devices
    from ...runtime.devices import extended_devices
    from ...runtime.gpu.arch import code_format

    rows: list[dict[str, Any]] = []
    played = next(x.name for x in FAMILIES.values() if x.launcher == "emulator")
    for name, module in std_devices().items():
        device = std_device(name)
        line = extended_devices(device, std_module(module)) if device and device.limit("units") else []
        for f in FAMILIES.values():
            if f.root and f.root in line:
                here = any(code_format(name, gpu) for gpu in gpus.get(f.name, ()))
                rows.append({"target": f"{f.name}:{name}", "runs here": here, "note": "" if here else "text and code"})
                rows.append({"target": f"{played}:{name}", "runs here": True, "note": "emulated"})
    return rows
