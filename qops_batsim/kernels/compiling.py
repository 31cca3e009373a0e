"""Compiling kernels with numba, which is imported only where something has to be compiled.

What Python calls is compiled as well: a function that takes Python's objects, makes numbers,
arrays and tuples of them, and calls the kernel.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import cgutils, serialize
from numba.core.compiler import CompileResult
from numba.extending import typeof_impl
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from qops_batsim.kernels import store
from qops_batsim.kernels.calling import ArrayKind, Kind, TupleKind, target_machine

WORD = ir.IntType(64)


types: Any = numba.types


@cache
def introduce(kernels: type) -> None:
    """Have numba take objects of a class for their ``dispatcher``, where a kernel calls them."""
    typeof_impl.register(kernels)(lambda value, context: types.Dispatcher(value.dispatcher))


def dispatcher_of(function: Callable[..., Any], *, lean: bool) -> Any:
    """Return what numba compiles a kernel with; a lean one only for other kernels."""
    options = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    dispatcher = numba.njit(**(options if lean else {}))(function)
    template_for = dispatcher.get_call_template

    def without_literals(arguments: Any, keywords: Any) -> Any:
        # Numba would compile a kernel anew for each constant that another one calls it with.
        return template_for(tuple(map(types.unliteral, arguments)), keywords)

    dispatcher.get_call_template = without_literals
    return dispatcher


def numba_type(kind: Kind) -> Any:
    """Return what numba calls a kind of argument."""
    if isinstance(kind, ArrayKind):
        return types.Array(from_dtype(kind.dtype), kind.dimensions, "C")
    if isinstance(kind, TupleKind):
        return types.BaseTuple.from_types(tuple(map(numba_type, kind.fields)), kind.pyclass)
    return {bool: types.boolean, int: types.int64, float: types.float64}[kind]


def machine_code_of(kernel: Any, kinds: tuple[Kind, ...], symbol: str) -> bytes:
    """Compile a kernel for arguments of these kinds.

    Returns
    -------
    bytes
        An object file. Its function of that name is one of an object that does not matter, an
        array of arguments, and their number, and returns an object, as Python's C functions.
    """
    signature = tuple(map(numba_type, kinds))
    dispatcher = kernel.dispatcher
    with _nothing_loaded(dispatcher.targetctx.codegen()):
        dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature]
    module = binding.parse_assembly(compiled.library.get_llvm_str())
    caller = binding.parse_assembly(str(_c_function(compiled, symbol)))
    caller.triple, caller.data_layout = module.triple, module.data_layout
    module.link_in(caller)
    program = ctypes.CDLL(None)
    for each in module.functions:
        if not each.is_declaration:
            each.linkage = "external" if each.name == symbol else "internal"
        elif not each.name.startswith("llvm.") and not hasattr(program, each.name):
            raise TypeError(f"kernel {kernel.python.__name__} needs numba's {each.name}")
    code: bytes = target_machine().emit_object(module)
    return code


@contextmanager
def _nothing_loaded(codegen: Any) -> Iterator[None]:
    """Keep numba from making machine code of every kernel that goes into another."""
    codegen._add_module = codegen.set_env = lambda *_: None
    try:
        yield
    finally:
        del codegen._add_module, codegen.set_env


def _c_function(compiled: Any, symbol: str) -> ir.Module:
    """Write the function that calls a compiled kernel with Python's objects."""
    context, description = compiled.target_context, compiled.fndesc
    signature = description.restype, description.argtypes
    module, pointer = ir.Module(), ir.IntType(8).as_pointer()
    callee_type = context.call_conv.get_function_type(*signature)
    callee = ir.Function(module, callee_type, description.llvm_func_name)
    caller_type = ir.FunctionType(pointer, [pointer, pointer.as_pointer(), WORD])
    caller = ir.Function(module, caller_type, symbol)
    builder = ir.IRBuilder(caller.append_basic_block())
    api = context.get_python_api(builder)
    arguments = [
        _unboxed(api, kind, builder.load(cgutils.gep_inbounds(builder, caller.args[1], place)))
        for place, kind in enumerate(description.argtypes)
    ]
    # Where an object was not what it should have been, Python knows the error.
    with builder.if_then(cgutils.is_not_null(builder, api.err_occurred())):
        builder.ret(pointer(None))
    status, result = context.call_conv.call_function(builder, callee, *signature, arguments)
    with builder.if_then(status.is_error):
        api.err_set_string("PyExc_RuntimeError", f"{symbol}: the kernel failed")
        builder.ret(pointer(None))
    builder.ret(_boxed(api, description.restype, result))
    return module


def _unboxed(api: Any, kind: Any, value: Any) -> Any:
    """Make an argument of one of Python's objects."""
    context, builder = api.context, api.builder
    if isinstance(kind, types.Array):
        return _array_of(context, builder, kind, value)
    if isinstance(kind, types.BaseTuple):
        fields = (
            _unboxed(api, each, api.tuple_getitem(value, place)) for place, each in enumerate(kind)
        )
        return context.make_tuple(builder, kind, tuple(fields))
    if isinstance(kind, types.Boolean):
        return cgutils.as_bool_bit(builder, api.object_istrue(value))
    return (api.float_as_double if isinstance(kind, types.Float) else api.long_as_longlong)(value)


def _array_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Take a NumPy array as it lies in memory: behind the head of an object, data and shape."""
    item = context.get_data_type(kind.dtype)

    def member(place: int, pointer: Any) -> Any:
        at = cgutils.pointer_add(builder, value, object.__basicsize__ + WORD.width // 8 * place)
        return builder.load(builder.bitcast(at, pointer.as_pointer()))

    data, shape = member(0, item.as_pointer()), member(2, WORD.as_pointer())
    sizes = [
        builder.load(cgutils.gep_inbounds(builder, shape, place)) for place in range(kind.ndim)
    ]
    itemsize = context.get_abi_sizeof(item)
    strides = [WORD(itemsize)]
    for size in sizes[:0:-1]:
        strides.insert(0, builder.mul(size, strides[0]))
    array = context.make_array(kind)(context, builder)
    populate_array(array, data, sizes, strides, itemsize, meminfo=None)
    return array._getvalue()


def _boxed(api: Any, kind: Any, value: Any) -> Any:
    """Make one of Python's objects of a result: a number, a tuple of numbers, or None."""
    if isinstance(kind, types.NoneType):
        return api.make_none()
    if isinstance(kind, types.BaseTuple):
        made = api.tuple_new(len(kind))
        for place, each in enumerate(kind):
            field = api.builder.extract_value(value, place)
            api.tuple_setitem(made, place, _boxed(api, each, field))
        return made
    if isinstance(kind, types.Boolean):
        return api.bool_from_bool(value)
    if isinstance(kind, types.Float):
        return api.float_from_double(value)
    if isinstance(kind, types.Integer):
        return api.long_from_longlong(api.context.cast(api.builder, value, kind, types.int64))
    raise TypeError(f"a kernel returns numbers and tuples of them, not {kind}")


class NumbaCache:
    """What numba keeps of a kernel that needs its runtime, in the place of all kernels."""

    cache_path = None

    def __init__(self, name_of: Callable[[str], str], note: Callable[[], None]) -> None:
        self._name_of, self._note = name_of, note

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return a compiled kernel, or None if there is none."""
        context.refresh()
        data = store.read(f"{self._name_of(str(signature))}.numba")
        if data is None:
            self._note()
            return None
        return CompileResult._rebuild(context, *pickle.loads(data))

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled kernel."""
        data = serialize.dumps(compiled._reduce())
        store.write(f"{self._name_of(str(signature))}.numba", data)
