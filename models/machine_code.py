"""Machine code of loops that is kept on disk and runs without the compiler that has made it.

To import numba and to set up its types takes a second, to link a few kilobytes of machine code a hundredth of that. So a loop
is compiled once per installation, behind an entry point with C's calling convention, and its object code written to the cache
folder; later processes link it with llvmlite alone.

A file's name is a digest of all that its code follows from: the loop and what it calls, types of the arguments, versions of
Python, numba and llvmlite, the processor. A file that is damaged is compiled anew.

Limits: loops that return nothing, take numbers, arrays in C order that may be written to and named tuples of those, allocate
nothing and call nothing but each other and the C library; `entry_of` says None to all others.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple, cast

import numpy as np

from ..archdsl import cache_folder

Entry = Callable[["CArguments"], bool]
"""Runs a loop; returns whether it has come to its end, without an exception."""
Opener = Callable[[FunctionType], FunctionType | None]
"""Gives the Python function behind a compiled one, None for all else."""


class ElfSymbol(NamedTuple):
    """An entry of an object file's table of symbols.

    Attributes:
        name_at: Where its name begins in the table of texts.
        info: Kind and visibility to other files.
        other: Visibility to other programs.
        section: Where it is defined; 0 where another file has to.
        value: Its address.
        num_bytes: Its size.

    Source: System V ABI, ELF-64 object file format, figure 6.
    """

    name_at: int
    info: int
    other: int
    section: int
    value: int
    num_bytes: int


ELF_SYMBOL: Final = "=IBBHQQ"
REALS: Final = {float: "f", np.float64: "f", bool: "b", np.bool_: "b"}
"""Numbers that an entry point takes as real ones, and what stands for them in a signature."""
INTEGERS: Final = {int: "i", np.int64: "i"}
"""Those that it takes as integers. numba itself takes all others."""
ENTRY_NAME: Final = "loop"
"""The symbol of every entry point."""
FREES_MEMORY: Final = "NRT_MemInfo_call_dtor"
"""What numba's code calls once nobody uses an array that numba has allocated: never, for these loops allocate nothing."""
DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linkable:
    """What is kept of a loop.

    Attributes:
        names: Symbols of the C library that it needs.
        object_code: Its machine code, to be linked; empty where that needs more than the C library.
    """

    names: tuple[str, ...]
    object_code: bytes


@dataclass(frozen=True, slots=True)
class CArguments:
    """A loop's arguments as its entry point takes them.

    Attributes:
        kinds: Equal for arguments that one entry point serves: of an array the type of its elements and its axes, of a tuple
            its type and what is in it, of a number its type.
        reals: Numbers, and truth as 0 or 1.
        integers: Whole numbers, and extents of arrays.
        addresses: Where the elements of arrays are; 0 for those without any.
    """

    kinds: list[Any]
    reals: list[float]
    integers: list[int]
    addresses: list[int]


def c_arguments(arguments: Sequence[Any]) -> CArguments | None:
    """Arguments as C takes them; None where one of them has no such form."""
    taken = CArguments([], [], [], [])
    return taken if _take(arguments, taken) else None


def _take(arguments: Sequence[Any], taken: CArguments) -> bool:
    kinds_of = list(map(type, arguments))
    if REALS.keys() >= set(kinds_of):  # most named tuples
        taken.kinds.extend(kinds_of)
        taken.reals.extend(arguments)
        return True
    for kind, argument in zip(kinds_of, arguments, strict=True):
        if kind is np.ndarray:
            if argument.dtype.kind not in "bif" or not argument.flags.carray:
                return False
            taken.kinds.append((argument.dtype.char, argument.ndim))
            taken.integers.extend(argument.shape)
            taken.addresses.append(ctypes.addressof(ctypes.c_char.from_buffer(argument)) if argument.size else 0)
        elif kind in REALS:
            taken.kinds.append(kind)
            taken.reals.append(argument)
        elif kind in INTEGERS:
            taken.kinds.append(kind)
            taken.integers.append(argument)
        elif hasattr(kind, "_fields"):
            taken.kinds.append(kind)
            if not _take(argument, taken):
                return False
        else:
            return False
    return True


def _signature(kinds: Sequence[Any]) -> str:
    """Kinds in words that are the same in every process, and for all numbers that C takes alike."""
    letters = {**REALS, **INTEGERS}
    return " ".join(letters.get(kind) or getattr(kind, "__qualname__", repr(kind)) for kind in kinds)


@cache
def numba_module() -> Any:
    """numba; it logs a line before the first function that it compiles, since that takes seconds."""
    numba, event = import_module("numba"), import_module("numba.core.event")

    class FirstCompilation(event.Listener):
        is_said = False

        def on_start(self, event: object) -> None:
            if not self.is_said:
                logging.getLogger(__name__).info("compiling loops to machine code, once per installation")
            self.is_said = True

        def on_end(self, event: object) -> None:
            """Required by numba."""

    event.register("numba:compile", FirstCompilation())
    return numba


def entry_of(function: FunctionType, opened: Opener, arguments: Sequence[object]) -> Entry | None:
    """The entry point of a loop for arguments of these types, from the cache folder or compiled now.

    Args:
        function: The loop, in Python.
        opened: Gives the Python function behind a compiled one that the loop calls.
        arguments: Some that it is called with; their types count.

    Returns:
        None where the loop needs numba around it at every call.
    """
    taken = c_arguments(arguments)
    if taken is None or function.__annotations__["return"] not in ("None", None):
        return None
    folder = cache_folder("loops")
    path = folder / f"{function.__name__}-{_key(function, opened, _signature(taken.kinds))}.o"
    linkable = _read(path)
    if linkable is None:
        linkable = _compile(function, arguments)
        _write(path, linkable)
    if not linkable.object_code:
        return None
    linked = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, *[ctypes.c_void_p] * len(taken.addresses)
    )
    loop, reals, integers = linked(_link(linkable)), f"{len(taken.reals)}d", f"{len(taken.integers)}q"

    def enter(given: CArguments) -> bool:
        return loop(struct.pack(reals, *given.reals), struct.pack(integers, *given.integers), *given.addresses) == 0

    return enter


def _key(function: FunctionType, opened: Opener, signature: str) -> str:
    """Digest of all that machine code follows from."""
    llvm = import_module("llvmlite.binding")
    facts = [
        sys.version, platform.machine(), version("numba"), version("llvmlite"), np.__version__,
        llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), signature,
        *_facts_of(function, function.__code__, opened, set()),
    ]  # fmt: skip
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:24]


def _facts_of(function: FunctionType, code: CodeType, opened: Opener, seen: set[FunctionType]) -> Iterator[str]:
    """What a function does, and what it calls: byte code, and values of the names in it."""
    seen.add(function)
    yield repr((code.co_name, code.co_argcount, code.co_varnames, code.co_names, code.co_code))
    yield repr([constant for constant in code.co_consts if not isinstance(constant, CodeType)])
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _facts_of(function, constant, opened, seen)
    for value in _values_of(function, code.co_names):
        called = opened(value)
        if called is not None and called not in seen:
            yield from _facts_of(called, called.__code__, opened, seen)
        elif isinstance(value, bool | int | float | str):
            yield repr(value)
        else:
            yield repr(getattr(value, "_fields", None))


def _values_of(function: FunctionType, names: Sequence[str]) -> Iterator[Any]:
    """What names in a function stand for, those behind the dot of a module too."""
    for name in names:
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, ModuleType):
            yield from (getattr(value, other, None) for other in names)


def _read(path: Path) -> _Linkable | None:
    """What `_write` has kept; None where there is nothing, or other than was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, kept = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if hashlib.sha256(kept).digest() != digest:
        return None
    names, _, object_code = kept.partition(b"\n")
    return _Linkable(names=tuple(names.decode().split()), object_code=object_code)


def _write(path: Path, linkable: _Linkable) -> None:
    """Keep object code; whoever reads meanwhile sees all of it or nothing."""
    kept = " ".join(linkable.names).encode() + b"\n" + linkable.object_code
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(kept).digest() + kept)
        os.replace(file.name, path)
    except OSError:
        return  # a folder that cannot be written to costs the next process the time to compile, and nothing else


def _link(linkable: _Linkable) -> int:
    """The address of the entry point, which stays in memory for good."""
    llvm = import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in linkable.names:
        if llvm.address_of_symbol(name) is None:
            llvm.add_symbol(name, _address_of("abort" if name == FREES_MEMORY else name))
    module = llvm.parse_assembly(f'target triple = "{llvm.get_process_triple()}"')
    engine = llvm.create_mcjit_compiler(module, _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(linkable.object_code))
    engine.finalize_object()
    _ENGINES.append(engine)
    return engine.get_function_address(ENTRY_NAME)


_ENGINES: Final[list[Any]] = []
"""What owns the machine code that is linked; it would be freed with them."""


def _address_of(name: str) -> int:
    return cast("int", ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value)


def _target_machine() -> Any:
    llvm = import_module("llvmlite.binding")
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


def _compile(function: FunctionType, arguments: Sequence[object]) -> _Linkable:
    """Object code of an entry point."""
    llvm, numba = import_module("llvmlite.binding"), numba_module()
    writing = _Writing(numba, {"carray": numba.carray, "function": numba.njit(function)})
    call = writing.call(arguments)
    parameters = ["reals_at", "integers_at", *(f"array{idx}" for idx in range(len(writing.pointers)))]
    text = ENTRY_TEXT.format(
        parameters=", ".join(parameters), num_reals=writing.num_reals, num_integers=writing.num_integers, call=call
    )
    # How many parameters there are follows from the types; numba takes functions with a fixed number of them only.
    exec(text, writing.names)  # noqa: S102
    pointer = numba.types.CPointer
    signature = numba.int32(pointer(numba.float64), pointer(numba.int64), *writing.pointers)
    compiled = numba.cfunc(signature)(writing.names["entry"])
    module = llvm.parse_assembly(compiled.inspect_llvm())
    module.get_function(compiled.native_name).name = ENTRY_NAME
    object_code = _target_machine().emit_object(module)
    needed = _names_needed(object_code)
    return _Linkable(names=needed or (), object_code=b"" if needed is None else object_code)


def _names_needed(object_code: bytes) -> tuple[str, ...] | None:
    """Names that object code leaves to the linker; None where the C library lacks one, or the file's form is not ELF."""
    llvm = import_module("llvmlite.binding")
    parts = {part.name(): part.data() for part in llvm.ObjectFileRef.from_data(object_code).sections() if part.size()}
    if b".symtab" not in parts or b".strtab" not in parts:
        return None
    texts = parts[b".strtab"]
    symbols = [ElfSymbol(*fields) for fields in struct.iter_unpack(ELF_SYMBOL, parts[b".symtab"])]
    undefined = [symbol.name_at for symbol in symbols if symbol.section == 0 and symbol.name_at > 0]
    needed = tuple(sorted(texts[at : texts.index(b"\0", at)].decode() for at in undefined))
    library = ctypes.CDLL(None)
    if any(name.startswith(("Py", "_Py")) or not hasattr(library, name) for name in needed if name != FREES_MEMORY):
        return None
    return needed


ENTRY_TEXT: Final = """
def entry({parameters}):
    try:
        reals, integers = carray(reals_at, ({num_reals},)), carray(integers_at, ({num_integers},))
        function({call})
    except Exception:
        return 1
    return 0
"""


class _Writing:
    """The text of an entry point as it is written, argument by argument in the order of `c_arguments`.

    Attributes:
        names: What names in it stand for.
        pointers: Types of the pointers to arrays.
        num_reals: Reals that it has taken so far.
        num_integers: Integers that it has taken so far.
    """

    def __init__(self, numba: Any, names: dict[str, Any]) -> None:
        self._numba = numba
        self.names = names
        self.pointers: list[Any] = []
        self.num_reals = 0
        self.num_integers = 0

    def call(self, arguments: Sequence[Any]) -> str:
        """Arguments in terms of the entry point's parameters."""
        return ", ".join(map(self._argument, arguments))

    def _argument(self, argument: Any) -> str:
        kind = cast("type[Any]", type(argument))
        if kind is np.ndarray:
            extents = "".join(f"{self._integer()}, " for _ in argument.shape)
            self.pointers.append(self._numba.types.CPointer(self._numba.from_dtype(argument.dtype)))
            return f"carray(array{len(self.pointers) - 1}, ({extents}))"
        if kind in INTEGERS:
            return self._integer()
        if kind in REALS:
            self.num_reals += 1
            return f"reals[{self.num_reals - 1}]" + (" != 0" if REALS[kind] == "b" else "")
        name = f"Tuple{len(self.names)}"
        self.names[name] = kind
        return f"{name}({self.call(argument)})"

    def _integer(self) -> str:
        self.num_integers += 1
        return f"integers[{self.num_integers - 1}]"
