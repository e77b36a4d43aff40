"""List the targets: what can be compiled for, what this machine can execute, and the compiler it would use."""

from __future__ import annotations

import argparse
from typing import Any

from .options import add_json
from .terminal import say_json

NAME = "targets"
HELP = "list what can be compiled for, and the compiler used"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ..codegen.targets import FAMILIES, MACHINES
    from ..dsl.errors import UserError
    from ..dsl.module import std_device, std_module
    from ..dsl.std import std_devices
    from ..runtime import features
    from ..runtime.compile import ancestry
    from ..runtime.toolchain import find_compiler

    rows: list[dict[str, Any]] = [{"target": "cpu", "runs here": True, "note": "this machine"}]
    for machine in MACHINES.values():
        lacking = features.missing(machine)
        rows.append(
            {"target": machine.device, "runs here": not lacking, "note": f"lacks {', '.join(lacking)}" if lacking else ""}
        )
    for name in std_devices():
        device = std_device(name)
        line = ancestry(device, std_module(std_devices()[name])) if device and device.limit("units") else []
        for f in FAMILIES.values():
            if f.root and f.root in line:
                rows.append({"target": f"{f.name}:{name}", "runs here": False, "note": "text"})
                played = next(x.name for x in FAMILIES.values() if x.launcher == "emulator")
                rows.append({"target": f"{played}:{name}", "runs here": True, "note": "emulated"})
    try:
        compiler = str(find_compiler())
    except UserError as error:
        compiler = error.message
    if args.json:
        say_json({"targets": rows, "compiler": compiler, "cores": features.usable_cores()})
        return 0
    for row in rows:
        print(f"{row['target']:<16} {'runs here' if row['runs here'] else '-':<10} {row['note']}".rstrip())
    print(f"compiler: {compiler}\ncores: {features.usable_cores()}")
    return 0
