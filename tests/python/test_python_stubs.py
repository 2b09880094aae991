"""The type stubs list exactly the names of the package."""
import ast
import inspect
import os

import pytest

import reshard

FOLDER = os.path.dirname(reshard.__file__)


def stubs(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    classes = {node.name: {item.name for item in node.body if isinstance(item, ast.FunctionDef)} |
               {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
               for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return classes, functions


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(name for name in reshard.__all__ if inspect.isclass(getattr(reshard, name))))
def test_classes(name):
    classes = {**stubs("_reshard.pyi")[0], **stubs("__init__.pyi")[0]}
    found = getattr(reshard, name)
    if issubclass(found, Exception):
        return
    if found.__module__.startswith("reshard._checkpoints"):
        assert public(vars(found)) <= public(classes[name])
    else:
        assert public(vars(found)) == public(classes[name])


def test_functions_and_their_arguments():
    functions = stubs("__init__.pyi")[1]
    there = {name for name in reshard.__all__ if inspect.isfunction(getattr(reshard, name))}
    assert set(functions) == there
    for name, node in functions.items():
        given = list(inspect.signature(getattr(reshard, name)).parameters)
        every = node.args.posonlyargs + node.args.args
        stub = [a.arg for a in every] + ([node.args.vararg.arg] if node.args.vararg else [])
        stub += [a.arg for a in node.args.kwonlyargs] + ([node.args.kwarg.arg] if node.args.kwarg else [])
        assert stub == given, name


def test_everything_has_a_docstring():
    for name in reshard.__all__:
        assert inspect.getdoc(getattr(reshard, name)), name
        if inspect.isclass(getattr(reshard, name)) and not issubclass(getattr(reshard, name), Exception):
            for member in public(vars(getattr(reshard, name))):
                if callable(getattr(getattr(reshard, name), member)):
                    assert inspect.getdoc(getattr(getattr(reshard, name), member)), f"{name}.{member}"
