"""List, clear or locate the cache of built and tuned kernels."""

from __future__ import annotations

import argparse
import time

from ..options import add_json
from ..terminal import say_json

NAME = "cache"
HELP = "list, clear or locate the cache of built and tuned kernels"
EXAMPLES = ("andiron cache list",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["list", "clear", "path"], nargs="?", default="list")
    parser.add_argument("--tuned", action="store_true", help="only results of `andiron tune`")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ...runtime.storage.cache import cache

    kept, kind = cache(), "tuned" if args.tuned else None
    if args.action == "path":
        say_json({"path": str(kept.root)}) if args.json else print(kept.root)
    elif args.action == "clear":
        count, size = kept.clear(kind)
        say_json({"removed": count, "bytes": size}) if args.json else print(f"removed {_entries(count)}, {size:,} bytes")
    else:
        entries = [e for e in kept.entries() if kind in (None, e.info.get("kind"))]
        if args.json:
            say_json([{"key": e.key, "bytes": e.bytes, "used": e.used, **e.info} for e in entries])
            return 0
        for e in entries:
            used = time.strftime("%Y-%m-%d %H:%M", time.localtime(e.used))
            print(f"{e.key[:12]}  {e.bytes:>10,} B  {used}  {e.info.get('what', 'damaged')}")
        print(f"{_entries(len(entries))}, {sum(e.bytes for e in entries):,} of {kept.limit:,} bytes in {kept.root}")
    return 0


def _entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"
