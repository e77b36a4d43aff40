"""Ctrl-C while a process ends: it says nothing, whoever still has threads."""

import signal
import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
@pytest.mark.parametrize("twice", [False, True])
def test_a_second_ctrl_c(twice):
    code = f"""
import sys, threading, time
from andiron.tools import cli
from andiron.tools.commands import targets

def compiler():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    print("waiting", flush=True)
    time.sleep(60)

def interrupted(args):
    threading.Thread(target=compiler).start()
    raise KeyboardInterrupt

def again(text):
    raise KeyboardInterrupt

targets.run = interrupted
if {twice}:
    cli.complain = again  # the second comes while the first is answered
sys.argv = ["andiron", "targets"]
sys.exit(cli.program())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"  # the process ends, and waits for its thread
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert said == ("" if twice else "interrupted\n")
