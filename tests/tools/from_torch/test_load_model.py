"""What MODULE may be, and what is said of what is none. A stand-in for PyTorch does for the mistakes."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from andiron.dsl.errors.run import BadModel, CannotExport, NoPackage
from andiron.tools.cli import main
from andiron.tools.from_torch.load_model import exported_program

NET = """
import dataclasses
import torch
net = torch.nn.Module()
class make:
    nothing = staticmethod(lambda: None)
    number = staticmethod(lambda: (net, 3))
    turned = staticmethod(lambda: ((), net))
    fails = staticmethod(lambda: 1 // 0)
    good = staticmethod(lambda: (net, torch.Tensor()))
"""


@pytest.fixture
def pretended(monkeypatch, tmp_path):
    """A module `torch` whose models cannot be exported, and a file with functions."""

    def refuse(*_):
        raise ValueError("a reason\nand more of it")

    switch = SimpleNamespace(get_fastpath_enabled=lambda: True, set_fastpath_enabled=lambda on: None)
    module = type("Module", (), {"eval": lambda self: self})
    context = type("Context", (), {"__enter__": lambda s: s, "__exit__": lambda *_: None})
    fake = SimpleNamespace(nn=SimpleNamespace(Module=module), Tensor=type("Tensor", (), {}), no_grad=context)
    fake.backends, fake.export = SimpleNamespace(mha=switch), SimpleNamespace(export=refuse, load=refuse)
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_net", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net.py").write_text(NET)
    (tmp_path / "broken.py").write_text("import nowhere\n")
    (tmp_path / "script.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "net.pt2").touch()
    yield
    sys.modules.pop("my_net", None)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("my_net", BadModel, "`my_net` names no function"),
        (
            "my_nett:make.good",
            BadModel,
            "there is no module `my_nett` in this folder or where Python looks\n  help: write `package",
        ),
        ("my_net.more:make", BadModel, "there is no module `my_net.more`"),
        (".my_net:make", BadModel, "`.my_net` is no name of a module"),
        ("my net:make", BadModel, "`my net` is no name of a module"),
        ("broken:make", BadModel, "`broken` cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("script.py:make", BadModel, "`script.py` cannot be imported: it ends the program, with 3"),
        ("my_net:make.", BadModel, "`my_net` has no ``"),
        ("nothing.pt2", BadModel, "there is no file `nothing.pt2`"),
        ("other.py:make", BadModel, "there is no file `other.py`"),
        ("my_net.py:mke", BadModel, "`my_net.py` has no `mke`\n  help: did you mean `make`?"),
        ("my_net:net", BadModel, "`my_net:net` is a value of the type `Module`, and no function"),
        ("my_net:make.nothing", BadModel, "`my_net:make.nothing` gives nothing; it must give a model and its inputs"),
        ("my_net:make.number", BadModel, "gives a value of the type `int` as its inputs"),
        ("my_net:make.turned", BadModel, "gives a value of the type `tuple` as its model"),
        ("my_net:make.fails", BadModel, "`my_net:make.fails` fails: ZeroDivisionError: integer division or modulo by zero"),
        ("my_net.py:make.good", CannotExport, "PyTorch cannot export `my_net.py:make.good`: ValueError: a reason"),
        ("net.pt2", CannotExport, "`net.pt2` cannot be read: ValueError: a reason"),
    ],
)
def test_mistakes(name, error, message, pretended):
    with pytest.raises(error) as caught:
        exported_program(name)
    assert message in str(caught.value)
    assert "and more" not in str(caught.value)


def test_without_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NoPackage, match="andiron\\[torch\\]"):
        exported_program("net:make")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise OSError('libcudart.so: cannot open')", "OSError: libcudart.so: cannot open"),
        ("raise ImportError('of its own\\nand more')", "ImportError: of its own"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("1 // 0", "ZeroDivisionError"),
    ],
)
def test_a_broken_pytorch(tmp_path, monkeypatch, text, said, capsys):
    (tmp_path / "torch.py").write_text(text)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["tasks", "--from-torch", "net:make"]) == 1
    shown = capsys.readouterr().err
    assert f"error[no-package]: PyTorch is installed, and cannot be imported: {said}" in shown
    assert "and more" not in shown
    assert "import torch" in shown


def test_a_pytorch_without_export(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    with pytest.raises(NoPackage, match=r"has no `torch\.export`"):
        exported_program("net:make")


MODELS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = nn.Linear(7, 3), nn.LSTM(3, 4)
    def forward(self, x, mask=None):
        y, _ = self.rest(torch.relu(self.first(x)))
        y = y[:, None, :, :]
        return nn.functional.scaled_dot_product_attention(y, y, y, mask).sinh()
def make():
    return Net(), {"x": torch.zeros(5, 2, 7), "mask": torch.zeros(1, 1, 2, 2)}
"""


def test_the_command(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "net.py").write_text(MODELS)
    assert main(["tasks", "--from-torch", "net.py:make", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    tasks = {t["op"]: (t["sizes"], t["calls"]) for t in said["tasks"]}
    assert tasks["linear"] == ({"M": 10, "N": 3, "K": 7}, 1)
    assert tasks["lstm_cell"] == ({"B": 2, "I": 3, "H": 4}, 5)
    assert tasks["batched_gemm"][0] == {"B": 5, "M": 2, "N": 4, "K": 2}  # of the attention, which has a mask
    assert said["nodes"]["partly"] == 1
    assert [u["target"] for u in said["unserved"] if not u["part_of"]] == ["aten.sinh"]

    rows = torch.export.Dim("rows", min=2)
    module = torch.nn.Sequential(torch.nn.Linear(7, 3), torch.nn.ReLU())
    torch.export.save(torch.export.export(module, (torch.zeros(5, 7),), dynamic_shapes=[{0: rows}]), "net.pt2")
    assert main(["tasks", "--from-torch", "net.pt2", "-o", "tasks.toml"]) == 0
    assert "its sizes depend on `s" in (tmp_path / "tasks.toml").read_text()
    assert "not served: 1 x aten.relu(f32[s" in capsys.readouterr().err
