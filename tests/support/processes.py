"""Programs in a process of their own: a crash or a hang there is a failed test, and not the end of all tests."""

import subprocess
import sys
import textwrap

ENOUGH = 240  # seconds: only a program that hangs takes as long

HEAD = """\
import os, random, sys, threading
import numpy as np
import andiron
from andiron.dsl.errors import UserError

sys.setswitchinterval(1e-5)

def together(count, work):
    \"\"\"Runs work(i) in so many threads that begin at once; the first exception is raised.\"\"\"
    begin, raised = threading.Barrier(count), []
    def run(i):
        begin.wait()
        try:
            work(i)
        except BaseException as error:
            raised.append(error)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]
"""


def run(program, env=None, head=HEAD, options=()):
    """Runs it to its end, which must be a good one; what it wrote."""
    text = head + textwrap.dedent(program)
    command = [sys.executable, "-X", "faulthandler", *options, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENOUGH, env=env, check=False)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout
