"""Programs that are traced once, stored, and compiled from what was stored: a second start does not trace.

`compile_or_load` compiles a function of pytrees. If the store has the program of that name it is read, lowered and
compiled, which the compilation cache makes quick; the function is not called. Otherwise the function is traced and
stored. Both ways compile the exported program, so they share the entry of the compilation cache and give equal bits.

A name must determine the function and everything that it depends on; see `runner/training/program_names.py`.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.export

from gems_jax.accelerator.compile import pause_garbage_collection, program
from gems_jax.accelerator.compile_clock import announce_stage
from gems_jax.accelerator.program_files import ProgramFile, delete_program, read_program, write_program
from gems_jax.accelerator.tree_words import NotStorableError, describe_structure, rebuild_structure
from gems_jax.types import PyTree

_KNOWN_KEYS = {"threefry2x32", "rbg", "unsafe_rbg"}  # implementations that JAX finds by name


class Loaded(NamedTuple):
    """A stored program that is ready to be compiled."""

    exported: jax.export.Exported
    keys: dict[int, str]  # implementations of the typed keys among the results, by position
    results: Any  # structure of the results
    notes: Any


@pause_garbage_collection()
def compile_or_load(
    name: str,
    function: Callable[..., PyTree],
    *arguments: PyTree,
    donated: Sequence[int] = (),
    notes: Any = None,
) -> Callable[..., PyTree]:
    """Compiles a function, from its stored program if there is one.

    Args:
      name: name of the program, which determines what the function computes; "" stores and loads nothing.
      function: function of pytrees of arrays.
      *arguments: arguments, or their shapes.
      donated: positions of arguments whose buffers the program may reuse.
      notes: plain data that is stored with the program.

    Returns:
      The compiled function, of arguments of the same shapes.
    """
    found = load_program(name)
    if found is not None and _fits(found, arguments):
        announce_stage("loading the stored program")
        try:
            return _compile(found, arguments, donated)
        except Exception:  # whatever is wrong with a stored program, tracing does without it
            delete_program(name)
    announce_stage("tracing")
    exported = _export(name, function, arguments, notes) if name and _can_serialize() else None
    if exported is None:
        return program(function, donate_argnums=tuple(donated)).lower(*arguments).compile()
    return _compile(exported, arguments, donated)


def load_program(name: str) -> Loaded | None:
    """Reads a stored program; None if there is none that this installation can read."""
    stored = read_program(name) if name and _can_serialize() else None
    if stored is None:
        return None
    try:
        record, exported = stored.record, jax.export.deserialize(bytearray(stored.program))
        keys = {int(position): kind for position, kind in record["keys"].items()}
        return Loaded(exported, keys, rebuild_structure(record["results"]), record["notes"])
    except Exception:
        delete_program(name)
        return None


def result_shapes(loaded: Loaded) -> PyTree:
    """Returns the shapes of a stored program's results, in their structure, without tracing."""
    leaves = [
        _key_shape(leaf, loaded.keys[position]) if position in loaded.keys else _shape(leaf)
        for position, leaf in enumerate(loaded.exported.out_avals)
    ]
    return jax.tree.unflatten(loaded.results, leaves)


@functools.cache
def _can_serialize() -> bool:
    return importlib.util.find_spec("flatbuffers") is not None


def _export(name: str, function: Callable[..., PyTree], arguments: PyTree, notes: Any) -> Loaded | None:
    """Traces a function and stores it; None if it cannot be stored, for example because it calls Python."""
    leaves, tree = jax.tree.flatten(arguments)
    given_keys = _key_kinds(leaves)
    if not _KNOWN_KEYS.issuperset(given_keys.values()):
        return None
    found: list[tuple[dict[int, str], Any]] = []

    @jax.jit
    def flat(*given: jax.Array) -> list[jax.Array]:
        results = function(*jax.tree.unflatten(tree, _wrap(given, given_keys)))
        leaves, structure = jax.tree.flatten(results)
        found.append((_key_kinds(leaves), structure))
        return _unwrap(leaves)

    shapes = [_words_shape(leaf) for leaf in leaves]
    flat.trace(*shapes)  # errors of the function itself are raised here
    keys, structure = found[0]
    if not _KNOWN_KEYS.issuperset(keys.values()):
        return None
    try:
        record = {"keys": keys, "results": describe_structure(structure), "notes": notes}
        exported = jax.export.export(flat)(*shapes)
        announce_stage("storing the program")
        write_program(name, ProgramFile(record, bytes(exported.serialize())))
    except (NotStorableError, NotImplementedError, TypeError, ValueError):
        return None
    return Loaded(exported, keys, structure, notes)


def _compile(loaded: Loaded, arguments: PyTree, donated: Sequence[int]) -> Callable[..., PyTree]:
    sizes = [len(jax.tree.leaves(argument)) for argument in arguments]
    starts = [sum(sizes[:position]) for position in range(len(sizes))]
    donate = tuple(leaf for place in donated for leaf in range(starts[place], starts[place] + sizes[place]))
    compiled = program(loaded.exported.call, donate_argnums=donate).lower(*loaded.exported.in_avals).compile()

    def call(*arguments: PyTree) -> PyTree:
        results = compiled(*_unwrap(jax.tree.leaves(arguments)))
        return jax.tree.unflatten(loaded.results, _wrap(results, loaded.keys))

    return call


def _fits(loaded: Loaded, arguments: PyTree) -> bool:
    """Checks that a program takes arguments of these shapes."""
    given = [_words_shape(leaf) for leaf in jax.tree.leaves(arguments)]
    taken = loaded.exported.in_avals
    return [(leaf.shape, leaf.dtype) for leaf in given] == [(leaf.shape, leaf.dtype) for leaf in taken]


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _key_kinds(leaves: Sequence[Any]) -> dict[int, str]:
    """Names the implementations of the typed keys among leaves, by position."""
    kinds: dict[int, str] = {}

    def note(place: int, key: jax.Array) -> jax.Array:
        kinds[place] = str(jax.random.key_impl(key))
        return jax.random.key_data(key)

    for place, leaf in enumerate(leaves):
        if _is_key(leaf):
            jax.eval_shape(functools.partial(note, place), leaf)  # a shape has no implementation, a tracer has one
    return kinds


def _wrap(leaves: Sequence[Any], keys: dict[int, str]) -> list[Any]:
    """Makes typed keys of the words at some positions."""
    return [
        jax.random.wrap_key_data(leaf, impl=keys[place]) if place in keys else leaf for place, leaf in enumerate(leaves)
    ]


def _unwrap(leaves: Sequence[Any]) -> list[Any]:
    """Replaces typed keys by their words."""
    return [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in leaves]


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _words_shape(leaf: Any) -> jax.ShapeDtypeStruct:
    """The shape of a leaf, or of its words if it is a key."""
    return _shape(jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf)


def _key_shape(words: Any, kind: str) -> jax.ShapeDtypeStruct:
    return _shape(jax.eval_shape(lambda data: jax.random.wrap_key_data(data, impl=kind), _shape(words)))
