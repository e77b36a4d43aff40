"""`fast_call.cpp` under sanitizers: nothing is used after it was freed, and no two threads touch an object at once."""

import shutil
import subprocess
from pathlib import Path

import pytest
from andiron.runtime.native import fast_call

HERE = Path(__file__).parent
TEXT = Path(fast_call.__file__).with_suffix(".cpp")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


def driven(kind, text, folder):
    program = folder / kind
    flags = ["-std=c++17", "-O1", "-g", "-pthread", f"-fsanitize={kind}", "-fno-strict-aliasing", f'-DCALLER="{text}"']
    command = ["g++", *flags, "-o", str(program), str(HERE / "fast_call_driver.cpp")]
    if (built := subprocess.run(command, capture_output=True, text=True)).returncode != 0:
        assert "san" in built.stderr.splitlines()[-2], built.stderr
        pytest.skip(f"g++ has no {kind} sanitizer")
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []  # older sanitizers want memory laid out as it was
    done = subprocess.run([*fixed, str(program)], capture_output=True, text=True, timeout=200)
    if "unexpected memory mapping" in done.stderr or "setarch" in done.stderr:
        pytest.skip(f"the {kind} sanitizer does not run here")
    return done


@pytest.mark.parametrize("kind", ["address", "thread"])
def test_snapshots_are_replaced_while_calls_run(kind, tmp_path):
    done = driven(kind, TEXT, tmp_path)
    assert (done.returncode, done.stdout) == (0, "right"), done.stderr


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("address", "world.down(results);  // refused", "world.down(results), world.down(results);  // refused"),
        ("thread", "    world.enter(state);\n", "    world.up(world.none);\n    world.enter(state);\n"),
    ],
)
def test_the_sanitizers_see_what_they_are_for(kind, good, bad, tmp_path):
    """A result that is given back twice; an object that is touched without the interpreter's lock."""
    text = TEXT.read_text()
    assert text.count(good) == 1
    broken = tmp_path / "broken.cpp"
    broken.write_text(text.replace(good, bad))
    done = driven(kind, broken, tmp_path)
    assert done.returncode != 0
    assert "Sanitizer" in done.stderr
