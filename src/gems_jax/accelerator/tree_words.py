"""Structures of pytrees as plain JSON data, without pickle.

Stored programs take and return lists of arrays. What puts a list together again is written beside them by these
functions: the class of every node by its name, with its static fields where those are plain values.
"""

from __future__ import annotations

import importlib
from typing import Any

import jax
from jax.tree_util import PyTreeDef, default_registry

_HOMES = {"builtins", "collections", "gems_jax", "optax", "flax", "jax"}  # packages whose classes are named
_LEAF = jax.tree.structure(0)


class NotStorableError(ValueError):
    """A program or structure that cannot be written: it refers to something that has no name or no plain value."""


def describe_structure(tree: PyTreeDef) -> Any:
    """Describes a structure as JSON data.

    Args:
      tree: structure of a pytree.

    Returns:
      Nested lists, strings and numbers; "*" stands for a leaf.

    Raises:
      NotStorableError: if a class is local or from another package, or a static field is not a plain value.
    """
    if tree == _LEAF:
        return "*"
    node, static = tree.node_data()
    home = f"{node.__module__}:{node.__qualname__}"
    if node.__module__.split(".")[0] not in _HOMES or "<" in home:
        raise NotStorableError(f"cannot store a structure with {home}: its class is not of a known package")
    return [home, _plain(static), [describe_structure(child) for child in tree.children()]]


def rebuild_structure(words: Any) -> PyTreeDef:
    """Rebuilds the structure that `describe_structure` described.

    Args:
      words: its JSON data.

    Raises:
      NotStorableError: if the words name a class of another package.
      AttributeError, ImportError: if a class no longer exists.
    """
    if words == "*":
        return _LEAF
    home, static, children = words
    module, _, name = home.partition(":")
    if module.split(".")[0] not in _HOMES:
        raise NotStorableError(f"cannot rebuild a structure with {home}: its class is not of a known package")
    node: Any = importlib.import_module(module)
    for part in name.split("."):
        node = type(None) if part == "NoneType" else getattr(node, part)
    data = (node, _value(static))
    return PyTreeDef.from_node_data_and_children(default_registry, data, map(rebuild_structure, children))


def _plain(value: Any) -> Any:
    """Marks tuples and lists, which JSON does not tell apart."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) in (tuple, list):
        return {type(value).__name__: [_plain(item) for item in value]}
    raise NotStorableError(f"cannot store a structure with the static value {value!r}: it is not plain data")


def _value(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((kind, items),) = plain.items()
    return (tuple if kind == "tuple" else list)(_value(item) for item in items)
