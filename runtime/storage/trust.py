"""Whether others could have put code into a file: files of the cache are loaded into the process and executed.

OURS     A folder or file is trusted if it belongs to this user, or to the system's administrator, and nobody else may write it.
GROUP    A group of which this user is the only member, as many systems give to each user, is nobody else.
WAY_DOWN A user who may write a folder may replace the folders in it. So all folders above are checked too, and both links and
         their targets. In a sticky folder, as /tmp is, users may only replace their own files.

On systems without POSIX users, nothing is checked.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_LINKS = 40  # followed on one way, as systems do


def folder_fault(path: Path) -> str | None:
    """Why this folder cannot be trusted, with the way out; None where it can, or is not there yet."""
    if not hasattr(os, "getuid"):
        return None
    todo, links = [Path(os.path.abspath(path))], 0
    while todo:
        way = todo.pop()
        for place in (*reversed(way.parents), way):
            try:
                found = os.lstat(place)
            except OSError:
                break  # not there: whoever makes it owns it
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _LINKS:
                    return f"{path} is a circle of links; ANDIRON_CACHE names another folder"
                todo.append(Path(os.path.join(place.parent, os.readlink(place), *way.parts[len(place.parts) :])))
                if not _of_us(found.st_uid):
                    return f"the link {place} belongs to {_user(found.st_uid)}; ANDIRON_CACHE names another folder"
                break
            if (why := _why(place, found, place != way)) is not None:
                return why
    return None


def others_can_write(path: Path) -> bool:
    """Whether others could have written a file, or a folder, of a folder that can be trusted."""
    found = os.lstat(path)
    return hasattr(os, "getuid") and (stat.S_ISLNK(found.st_mode) or _why(path, found, False) is not None)


def close_to_others(path: Path) -> None:
    """Takes from others the right to write a file that was just made: compilers give it where the process' mask allows."""
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & 0o022 and not path.is_symlink():
        os.chmod(path, mode & ~0o022)


def _why(place: Path, found: os.stat_result, above: bool) -> str | None:
    if not _of_us(found.st_uid):
        return f"{place} belongs to {_user(found.st_uid)}; ANDIRON_CACHE names another folder"
    if above and found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & 0o002 or (found.st_mode & 0o020 and not _only_us(found.st_gid)):
        return f"others may write {place}; run `chmod go-w {place}` if nobody did, or set ANDIRON_CACHE to another folder"
    return None


def _of_us(user: int) -> bool:
    return user in (0, os.geteuid()) or (user == _UNMAPPED and _in_a_namespace())


_UNMAPPED = 65534  # whom Linux names for users that a namespace has not


def _in_a_namespace() -> bool:
    """Whether there are users outside that show as that one: then the system's own folders do."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return file.read().split() != ["0", "0", "4294967295"]
    except OSError:
        return False


def _only_us(group: int) -> bool:
    import grp
    import pwd

    try:
        mine = pwd.getpwuid(os.geteuid()).pw_name
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return group == os.getegid() and os.geteuid() != 0  # nobody knows this user or its group
    members |= {u.pw_name for u in pwd.getpwall() if u.pw_gid == group}
    return members <= {mine, "root"}


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
