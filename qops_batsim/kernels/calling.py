"""Calling the machine code of a kernel from Python, without numba."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class ArrayKind(NamedTuple):
    """What a kernel has to know of an array; it is contiguous."""

    dtype: np.dtype[Any]
    dimensions: int


class TupleKind(NamedTuple):
    """What a kernel has to know of a named tuple: its class, and the kinds of its fields."""

    pyclass: type
    fields: tuple[Any, ...]


Kind = type | ArrayKind | TupleKind
"""What a kernel has to know of an argument; of a number: bool, int or float."""

_NUMBERS: dict[type, Kind] = {
    bool: bool,
    np.bool_: bool,
    int: int,
    np.int64: int,
    float: float,
    np.float64: float,
}


def kind_of(argument: Any) -> Kind:
    """Return the kind of an argument."""
    kind = _NUMBERS.get(type(argument))
    if kind is not None:
        return kind
    if isinstance(argument, np.ndarray) and argument.flags.c_contiguous:
        return ArrayKind(argument.dtype, argument.ndim)
    if isinstance(argument, tuple) and hasattr(argument, "_fields"):
        return TupleKind(type(argument), tuple(map(kind_of, argument)))
    raise TypeError(
        f"{argument!r}: a kernel takes numbers, contiguous arrays, named tuples of them"
    )


def text_of(kind: Kind) -> str:
    """Return the kind as a text that is the same in every process."""
    if isinstance(kind, ArrayKind):
        return f"{kind.dimensions} {kind.dtype!r}"
    if isinstance(kind, TupleKind):
        names = getattr(kind.pyclass, "_fields", ())
        return f"{kind.pyclass.__qualname__}{names}({', '.join(map(text_of, kind.fields))})"
    return kind.__name__


def target_machine() -> Any:
    """Return LLVM's description of this processor, as numba has it."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    name, features = processor()
    target = binding.Target.from_default_triple()
    reloc = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
    )


@cache
def processor() -> tuple[str, str]:
    """Return the name of this processor and what it can, or what numba is to take for it."""
    import os

    from llvmlite import binding

    name = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or binding.get_host_cpu_features().flatten()
    return name, features


@cache
def _memory() -> Any:
    """Return LLVM's memory for machine code."""
    from llvmlite import binding

    machine = target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


class _Method(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x0080
"""Python's ``METH_FASTCALL``: a function of an object, an array of arguments and their number."""

_methods: list[_Method] = []


def load(symbol: str, machine_code: bytes) -> Callable[..., Any]:
    """Load an object file; return its function of that name, which takes Python's objects."""
    from llvmlite import binding

    memory = _memory()
    memory.add_object_file(binding.ObjectFileRef.from_data(machine_code))
    memory.finalize_object()
    method = _Method(symbol.encode(), memory.get_function_address(symbol), _FASTCALL, None)
    # Python refers to it as long as the function lives.
    _methods.append(method)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.argtypes = ctypes.POINTER(_Method), ctypes.c_void_p, ctypes.c_void_p
    new.restype = ctypes.py_object
    made: Callable[..., Any] = new(ctypes.byref(method), None, None)
    return made
