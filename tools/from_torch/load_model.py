"""MODULE of `andiron tasks --from-torch`: what it names, exported."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ...dsl.errors import UserError, did_you_mean
from ...dsl.errors.run import BadModel, CannotExport, NoPackage

_SPELLINGS = "write `package.module:function`, `file.py:function`, or a `.pt2` file of `torch.export.save`"


def exported_program(name: str) -> Any:
    """The graph of the model that `name` names, exported to be evaluated.

    name  `package.module:function` or `file.py:function`, where the function has no arguments and gives a model with its
          inputs; or a file of `torch.export.save`, `model.pt2`

    Code of the user's is executed. Raises NoPackage, BadModel, CannotExport.
    """
    torch = _pytorch()
    if name.endswith(".pt2"):
        if not Path(name).is_file():
            raise BadModel(f"there is no file `{name}`")
        return _attempt(lambda: torch.export.load(name), f"`{name}` cannot be read")
    model, args, kwargs = _model_of(torch, name)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it is one operator for a whole layer of a transformer
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about itself
            return _attempt(lambda: torch.export.export(model.eval(), args, kwargs), f"PyTorch cannot export `{name}`")
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


def _pytorch() -> Any:
    """PyTorch. Raises NoPackage where it is not installed, and where it is and cannot be imported."""
    try:
        import torch  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise NoPackage("PyTorch is not installed", help="pip install 'andiron[torch]'") from None
        raise _broken_pytorch(error) from error
    except Exception as error:
        if os.environ.get("ANDIRON_DEBUG"):
            raise
        raise _broken_pytorch(error) from error
    if not hasattr(torch, "export"):
        raise NoPackage("this PyTorch has no `torch.export`", help="pip install --upgrade 'andiron[torch]'")
    return torch


def _broken_pytorch(cause: Exception) -> NoPackage:
    return NoPackage(
        f"PyTorch is installed, and cannot be imported: {_in_words(cause)}",
        help="`python -c 'import torch'` shows the same; once that works, so does this",
    )


def _model_of(torch: Any, name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    function = _function(name)
    value = _attempt(function, f"`{name}` fails", BadModel)
    wanted = f"`{name}` gives {{}}; it must give a model and its inputs: a tensor, a tuple, or a dictionary of them by name"
    if not isinstance(value, tuple) or len(value) != 2:
        raise BadModel(wanted.format(_described(value)))
    model, inputs = value
    if not isinstance(model, torch.nn.Module):
        raise BadModel(wanted.format(f"{_described(model)} as its model"))
    if isinstance(inputs, dict):
        return model, (), inputs
    if isinstance(inputs, torch.Tensor):
        return model, (inputs,), {}
    if not isinstance(inputs, list | tuple):
        raise BadModel(wanted.format(f"{_described(inputs)} as its inputs"))
    return model, tuple(inputs), {}


def _function(name: str) -> Callable[[], Any]:
    place, _, path = name.rpartition(":")
    if not place or not path or "/" in path or "\\" in path:
        raise BadModel(f"`{name}` names no function", help=_SPELLINGS)
    value: Any = _module(place)
    for part in path.split("."):
        if not part or not _attempt(partial(hasattr, value, part), f"`{place}` cannot be looked into", BadModel):
            raise BadModel(f"`{place}` has no `{part}`", help=did_you_mean(part, [n for n in dir(value) if n[0] != "_"]))
        value = getattr(value, part)
    if not callable(value):
        raise BadModel(f"`{name}` is {_described(value)}, and no function", help=_SPELLINGS)
    return value


def _module(place: str) -> ModuleType:
    """What it imports is looked for in the folder of its file, or in this one, as Python does."""
    path = Path(place)
    if not place.endswith(".py"):
        with_folder = Path.cwd()
    elif path.is_file():
        with_folder = path.resolve().parent
    else:
        raise BadModel(f"there is no file `{place}`")
    if not place.endswith(".py") and not all(part.isidentifier() for part in place.split(".")):
        raise BadModel(f"`{place}` is no name of a module", help=_SPELLINGS)
    sys.path.insert(0, str(with_folder))
    return _attempt(
        lambda: _executed(path) if place.endswith(".py") else _imported(place), f"`{place}` cannot be imported", BadModel
    )


def _imported(place: str) -> ModuleType:
    """Raises BadModel where it, or a package that it is in, is not there; what its own code raises, it raises."""
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name and f"{place}.".startswith(f"{error.name}."):
            raise BadModel(
                f"there is no module `{error.name}` in this folder or where Python looks",
                help=f"{_SPELLINGS}; modules are looked for in {Path.cwd()} and in PYTHONPATH",
            ) from None
        raise


def _executed(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _attempt(function: Callable[[], Any], message: str, error: type[BadModel] | type[CannotExport] = CannotExport) -> Any:
    """What a function of the user's or of PyTorch's gives; what it raises, in words."""
    try:
        return function()
    except UserError:
        raise
    except SystemExit as cause:  # a script without a function to call
        raise error(f"{message}: it ends the program, with {cause.code!r}") from cause
    except Exception as cause:
        if os.environ.get("ANDIRON_DEBUG"):
            raise
        raise error(f"{message}: {_in_words(cause)}") from cause


def _in_words(cause: BaseException) -> str:
    """The kind of an exception, and the first line of what it says."""
    text = str(cause).strip().splitlines()
    return type(cause).__name__ + (f": {text[0]}" if text else "")


def _described(value: Any) -> str:
    return "nothing" if value is None else f"a value of the type `{type(value).__name__}`"
