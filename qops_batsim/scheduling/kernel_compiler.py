"""Compiling kernels with numba, which is imported only where something has to be compiled.

What Python calls is compiled as well: a function that takes Python's objects, makes numbers,
arrays and tuples of them, and calls the kernel.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import cgutils, serialize, types
from numba.core.compiler import CompileResult
from numba.extending import intrinsic, typeof_impl
from numba.np.arrayobj import populate_array

from qops_batsim.scheduling import kernel_store
from qops_batsim.scheduling.kernel_call import ArrayKind, Kind, TupleKind, target_machine
from qops_batsim.scheduling.kernels import Kernel

numba_type = numba.typeof


@typeof_impl.register(Kernel)
def _type_of_kernel(value: Kernel, context: Any) -> Any:
    """Have numba take a kernel that another one calls for its dispatcher."""
    return types.Dispatcher(value.dispatcher)


def dispatcher_of(function: Callable[..., Any], *, lean: bool) -> Any:
    """Return what numba compiles a kernel with; a lean one only for other kernels."""
    if lean:
        return numba.njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return numba.njit(function)


def machine_code_of(kernel: Kernel, kinds: tuple[Kind, ...], symbol: str) -> bytes:
    """Compile a kernel for arguments of these kinds.

    Returns
    -------
    bytes
        An object file. Its function of that name is one of an object that does not matter, an
        array of arguments, and their number, and returns an object, as Python's C functions.
    """
    dispatcher = dispatcher_of(_function_of_objects(kernel, kinds), lean=True)
    dispatcher.compile((types.voidptr,))
    (compiled,) = dispatcher.overloads.values()
    module = binding.parse_assembly(compiled.library.get_llvm_str())
    caller = binding.parse_assembly(_c_function(compiled, symbol))
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


def _c_function(compiled: Any, symbol: str) -> str:
    """Write the function that calls a compiled one as numba's functions call each other."""
    context, description = compiled.target_context, compiled.fndesc
    signature = description.restype, description.argtypes
    module, pointer = ir.Module(), ir.IntType(8).as_pointer()
    callee_type = context.call_conv.get_function_type(*signature)
    callee = ir.Function(module, callee_type, description.llvm_func_name)
    caller_type = ir.FunctionType(pointer, [pointer, pointer, ir.IntType(64)])
    caller = ir.Function(module, caller_type, symbol)
    builder = ir.IRBuilder(caller.append_basic_block())
    status, result = context.call_conv.call_function(builder, callee, *signature, [caller.args[1]])
    builder.ret(builder.select(status.is_error, pointer(None), result))
    return str(module)


def _function_of_objects(kernel: Kernel, kinds: tuple[Kind, ...]) -> Callable[..., Any]:
    """Write a function of an array of arguments, objects of Python, that returns an object."""
    names = {
        "kernel": kernel,
        "argument": _argument,
        "field": _field,
        "bool_of": _bool_of,
        "int_of": _int_of,
        "float_of": _float_of,
        "array_of": _array_of,
        "failed": _failed,
        "nothing": _nothing,
        "object_of": _object_of,
    }
    lines = [
        f"a{place} = {_expression(kind, f'argument(arguments, {place})', names)}"
        for place, kind in enumerate(kinds)
    ]
    call = f"kernel({', '.join(f'a{place}' for place in range(len(kinds)))})"
    lines += ["if failed():", "    return nothing()", f"return object_of({call})"]
    exec("\n    ".join(["def call(arguments):", *lines]), names)
    made: Callable[..., Any] = names["call"]
    return made


def _expression(kind: Kind, value: str, names: dict[str, Any]) -> str:
    """Return the expression that makes an argument of a kind of an object."""
    if isinstance(kind, ArrayKind):
        dtype = f"dtype{len(names)}"
        names[dtype] = kind.dtype
        return f"array_of({value}, {dtype}, {kind.dimensions})"
    if isinstance(kind, TupleKind):
        pyclass = f"pyclass{len(names)}"
        names[pyclass] = kind.pyclass
        fields = (
            _expression(each, f"field({value}, {place})", names)
            for place, each in enumerate(kind.fields)
        )
        return f"{pyclass}({', '.join(fields)})"
    return f"{kind.__name__}_of({value})"


@intrinsic(prefer_literal=True)
def _argument(typingctx: Any, arguments: Any, place: Any) -> Any:
    """Take an argument out of the array of them."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = builder.bitcast(values[0], values[0].type.as_pointer())
        return builder.load(cgutils.gep_inbounds(builder, array, place.literal_value))

    return types.voidptr(arguments, place), generate


@intrinsic(prefer_literal=True)
def _field(typingctx: Any, value: Any, place: Any) -> Any:
    """Take a field out of a tuple."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.get_python_api(builder).tuple_getitem(values[0], place.literal_value)

    return types.voidptr(value, place), generate


@intrinsic
def _bool_of(typingctx: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        found = context.get_python_api(builder).object_istrue(values[0])
        return builder.icmp_signed("!=", found, found.type(0))

    return types.boolean(value), generate


@intrinsic
def _int_of(typingctx: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.get_python_api(builder).long_as_longlong(values[0])

    return types.int64(value), generate


@intrinsic
def _float_of(typingctx: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.get_python_api(builder).float_as_double(values[0])

    return types.float64(value), generate


@intrinsic(prefer_literal=True)
def _array_of(typingctx: Any, value: Any, dtype: Any, dimensions: Any) -> Any:
    """Take a NumPy array as it lies in memory: behind the head of an object, data and shape."""
    array_type = types.Array(dtype.dtype, dimensions.literal_value, "C")

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        item, word = context.get_data_type(array_type.dtype), ir.IntType(64)

        def member(place: int, pointer: Any) -> Any:
            at = cgutils.pointer_add(builder, values[0], object.__basicsize__ + 8 * place)
            return builder.load(builder.bitcast(at, pointer.as_pointer()))

        data, shape = member(0, item.as_pointer()), member(2, word.as_pointer())
        itemsize = context.get_abi_sizeof(item)
        sizes = [
            builder.load(cgutils.gep_inbounds(builder, shape, place))
            for place in range(array_type.ndim)
        ]
        strides = [context.get_constant(types.intp, itemsize)]
        for size in sizes[:0:-1]:
            strides.insert(0, builder.mul(size, strides[0]))
        array = context.make_array(array_type)(context, builder)
        populate_array(array, data, sizes, strides, itemsize, meminfo=None)
        return array._getvalue()

    return array_type(value, dtype, dimensions), generate


@intrinsic
def _failed(typingctx: Any) -> Any:
    """Whether an object was not what it should have been."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        error = context.get_python_api(builder).err_occurred()
        return cgutils.is_not_null(builder, error)

    return types.boolean(), generate


@intrinsic
def _nothing(typingctx: Any) -> Any:
    """Return what tells Python that there is an error."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.get_constant_null(types.voidptr)

    return types.voidptr(), generate


@intrinsic
def _object_of(typingctx: Any, result: Any) -> Any:
    """Make an object of Python of a result: a number, a tuple of numbers, or None."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        api = context.get_python_api(builder)

        def boxed(kind: Any, value: Any) -> Any:
            if isinstance(kind, types.Boolean):
                return api.bool_from_bool(value)
            if isinstance(kind, types.Float):
                return api.float_from_double(context.cast(builder, value, kind, types.float64))
            if isinstance(kind, types.Integer):
                return api.long_from_longlong(context.cast(builder, value, kind, types.int64))
            raise TypeError(f"a kernel returns numbers, not {kind}")

        if isinstance(result, types.NoneType):
            return api.make_none()
        if not isinstance(result, types.BaseTuple):
            return boxed(result, values[0])
        made = api.tuple_new(len(result))
        for place, kind in enumerate(result):
            value = builder.extract_value(values[0], place)
            api.tuple_setitem(made, place, boxed(kind, value))
        return made

    return types.voidptr(result), generate


class NumbaCache:
    """What numba keeps of a kernel that needs its runtime, in the place of all kernels."""

    cache_path = None

    def __init__(self, name_of: Callable[[str], str], note: Callable[[], None]) -> None:
        self._name_of, self._note = name_of, note

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return a compiled kernel, or None if there is none."""
        context.refresh()
        data = kernel_store.read(f"{self._name_of(str(signature))}.numba")
        if data is None:
            self._note()
            return None
        return CompileResult._rebuild(context, *pickle.loads(data))

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled kernel."""
        data = serialize.dumps(compiled._reduce())
        kernel_store.write(f"{self._name_of(str(signature))}.numba", data)
