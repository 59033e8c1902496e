"""The tables of the driver layer against `cuda.bindings`: structs, enums, errors, prototypes."""

from __future__ import annotations

import ast
import ctypes
import re
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from fake_driver import FakeDriver

import softcuda.driver
from softcuda.driver import enums, results, types
from softcuda.driver.api import BEFORE_INIT, PROTOTYPES, RETURNS_NOT_READY

bindings = pytest.importorskip("cuda.bindings.driver")
PACKAGE = Path(softcuda.driver.__file__).parent

STRUCTS = [
    "CUDA_KERNEL_NODE_PARAMS_v2",
    "CUDA_MEMCPY2D",
    "CUDA_MEMCPY3D",
    "CUDA_MEMSET_NODE_PARAMS",
    "CUgraphEdgeData",
    "CUlaunchAttribute",
    "CUlaunchAttributeValue",
    "CUlaunchConfig",
    "CUtensorMap",
    "CUuuid",
]

# Our enum -> the enum of the bindings, and what its members are prefixed with there.
ENUMS = {
    enums.CUdevice_attribute: ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_"),
    enums.CUevent_flags: ("CUevent_flags", "CU_EVENT_"),
    enums.CUfunction_attribute: ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_"),
    enums.CUgraphDependencyType: ("CUgraphDependencyType", "CU_GRAPH_DEPENDENCY_TYPE_"),
    enums.CUjit_option: ("CUjit_option", "CU_JIT_"),
    enums.CUlaunchAttributeID: ("CUlaunchAttributeID", "CU_LAUNCH_ATTRIBUTE_"),
    enums.CUmemorytype: ("CUmemorytype", "CU_MEMORYTYPE_"),
    enums.CUpointer_attribute: ("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_"),
    enums.CUstreamCaptureMode: ("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_"),
    enums.CUstream_flags: ("CUstream_flags", "CU_STREAM_"),
    enums.CUtensorMapDataType: ("CUtensorMapDataType", "CU_TENSOR_MAP_DATA_TYPE_"),
    enums.CUtensorMapFloatOOBfill: ("CUtensorMapFloatOOBfill", "CU_TENSOR_MAP_FLOAT_OOB_FILL_"),
    enums.CUtensorMapInterleave: ("CUtensorMapInterleave", "CU_TENSOR_MAP_INTERLEAVE_"),
    enums.CUtensorMapL2promotion: ("CUtensorMapL2promotion", "CU_TENSOR_MAP_L2_PROMOTION_"),
    enums.CUtensorMapSwizzle: ("CUtensorMapSwizzle", "CU_TENSOR_MAP_SWIZZLE_"),
}
UNKNOWN_TO_BINDINGS = {enums.CUgraphKernelNodePort: "CU_GRAPH_KERNEL_NODE_PORT_"}


def native(name: str) -> Any:
    return getattr(bindings, name)()


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_sizes(name: str) -> None:
    assert ctypes.sizeof(getattr(types, name)) == bindings.sizeof(getattr(bindings, name))


def test_every_struct_is_in_the_test() -> None:
    kinds = (ctypes.Structure, ctypes.Union)
    found = [n for n in types.__all__ if issubclass(getattr(types, n), kinds)]
    assert sorted(found) == sorted(STRUCTS)


def scalar_fields(name: str) -> Iterator[str]:
    """Yield the number fields of a struct that the bindings know by the same name."""
    known = dir(getattr(bindings, name))
    for field, kind, *_ in getattr(types, name)._fields_:
        if field.startswith(("pad", "reserved")) or field not in known:
            continue
        if kind in (ctypes.c_uint, ctypes.c_int, ctypes.c_size_t, ctypes.c_ubyte):
            yield field


@pytest.mark.parametrize("name", STRUCTS)
def test_field_offsets(name: str) -> None:
    """A number written through the bindings is read at our offset."""
    kind = getattr(types, name)
    checked = 0
    for number, field in enumerate(scalar_fields(name)):
        value = native(name)
        wanted: int = number % 2 + 1
        wrapped: Any = wanted
        if field.endswith("MemoryType"):
            wrapped = bindings.CUmemorytype(wanted)
        elif field == "id":
            wrapped = bindings.CUlaunchAttributeID(wanted)
        setattr(value, field, wrapped)
        mine = kind.from_buffer_copy(ctypes.string_at(value.getPtr(), ctypes.sizeof(kind)))
        assert getattr(mine, field) == wanted, f"{name}.{field}"
        checked += 1
    if name not in ("CUtensorMap", "CUuuid"):
        assert checked >= 1


def test_offsets_of_pointers_and_handles() -> None:
    """Offsets that follow from the C declarations on a 64-bit machine."""
    offsets = {
        (types.CUlaunchConfig, "hStream"): 32,
        (types.CUlaunchConfig, "attrs"): 40,
        (types.CUlaunchAttribute, "value"): 8,
        (types.CUDA_KERNEL_NODE_PARAMS_v2, "kernelParams"): 40,
        (types.CUDA_KERNEL_NODE_PARAMS_v2, "ctx"): 64,
        (types.CUDA_MEMCPY2D, "srcHost"): 24,
        (types.CUDA_MEMCPY2D, "dstDevice"): 88,
        (types.CUDA_MEMCPY3D, "srcDevice"): 48,
        (types.CUDA_MEMCPY3D, "dstHost"): 128,
    }
    for (kind, field), offset in offsets.items():
        assert getattr(kind, field).offset == offset


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_enum_values(kind: type[IntEnum]) -> None:
    name, prefix = ENUMS[kind]
    theirs = getattr(bindings, name).__members__
    for member in kind:
        short = member.name
        if short in ("B16", "B32", "B64", "B128"):  # a Python name cannot begin with a digit
            short = f"{short[1:]}B"
        assert theirs[prefix + short].value == member.value, f"{name}.{member.name}"


def test_port_values() -> None:
    for kind, prefix in UNKNOWN_TO_BINDINGS.items():
        for member in kind:
            known = getattr(bindings, prefix + member.name, None)
            assert known is None or int(known) == member.value


def test_every_enum_is_in_the_test() -> None:
    assert {getattr(enums, name) for name in enums.__all__} == {*ENUMS, *UNKNOWN_TO_BINDINGS}


def test_error_names() -> None:
    theirs = {member.value: member.name for member in bindings.CUresult}
    ours = {code: result.name for code, result in results.RESULTS.items()}
    assert {code: ours.get(code) for code in theirs} == theirs
    assert all(result.text for result in results.RESULTS.values())


def test_sticky_errors_are_those_after_which_the_process_must_end() -> None:
    fatal = {m.value for m in bindings.CUresult if "relaunched" in (m.__doc__ or "")}
    assert fatal <= results.STICKY
    destroyed = {"ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "ASSERT", "CONTEXT_IS_DESTROYED"}
    rest = {results.RESULTS[code].name for code in results.STICKY - fatal}
    assert rest <= {f"CUDA_ERROR_{name}" for name in destroyed} | {
        results.RESULTS[code].name
        for code in (226, 721, 810, 911)  # older bindings lack the text
    }


def test_constants_of_results() -> None:
    named = {name for name in results.__all__ if isinstance(getattr(results, name), int)}
    for name in named:
        full = f"CUDA_{'' if name == 'SUCCESS' else 'ERROR_'}{name}"
        assert results.RESULTS[getattr(results, name)].name == full


# Prototypes

C_TYPES = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "cuuint32_t": ctypes.c_uint,
    "unsigned char": ctypes.c_ubyte,
    "unsigned short": ctypes.c_ushort,
    "size_t": ctypes.c_size_t,
    "unsigned long long": ctypes.c_uint64,
    "CUdeviceptr": ctypes.c_uint64,
    "CUdevice": ctypes.c_int,
}
HANDLES = ("context", "module", "function", "stream", "event", "graph", "graphNode", "graphExec")


def c_type(text: str) -> Any:
    """Return the ctypes type of a C type by value, or None for a pointer."""
    if "*" in text:
        return None
    if text in C_TYPES:
        return C_TYPES[text]
    if text == "CUoccupancyB2DSize" or text in {f"CU{name}" for name in HANDLES}:
        return ctypes.c_void_p
    return ctypes.c_int  # an enumeration


def is_pointer(kind: Any) -> bool:
    return kind in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(kind, "contents")


def parameters(signature: str) -> list[str]:
    """Return the types of a C parameter list, without const and names."""
    found = []
    for parameter in signature.split(","):
        text = re.sub(r"\bconst\b", "", parameter).strip()
        if text not in ("", "void"):
            found.append(re.sub(r"\s*\w+$", "", text.replace("*", " * ")).strip())
    return found


def check_signature(name: str, signature: str) -> None:
    types_of = parameters(signature)
    ours = PROTOTYPES[name]
    assert len(types_of) == len(ours), (name, types_of)
    for text, kind in zip(types_of, ours, strict=True):
        wanted = c_type(text)
        if wanted is None:
            # an address on the device is a number in our table
            assert is_pointer(kind) or kind is ctypes.c_uint64, (name, text, kind)
            pointed = getattr(kind, "_type_", None)
            scalar = C_TYPES.get(text.rstrip("* ").strip())
            if hasattr(kind, "contents") and scalar is not None and text.count("*") == 1:
                assert pointed is scalar, (name, text, kind)
        else:
            assert kind is wanted, (name, text, kind)


def commented() -> dict[str, str]:
    """Return the C signature that stands behind or below each row of the table."""
    found: dict[str, str] = {}
    name = ""
    lines = (PACKAGE / "api.py").read_text(encoding="utf-8").splitlines()
    for line in lines[lines.index("# fmt: off") :]:
        row = re.match(r'    "(cu\w+)": .*?\),?(?:  # (.*))?$', line)
        if row:
            name = row[1]
            found[name] = row[2] or ""
        elif line.startswith("    # ---"):
            name = ""
        elif name and line.startswith("    # "):
            found[name] += f" {line[6:]}"
    return {n: re.sub(r"^\s*since [\d.]+:|;.*$", "", text).strip() for n, text in found.items()}


@pytest.mark.parametrize("name", PROTOTYPES)
def test_signatures_behind_the_rows(name: str) -> None:
    assert commented()[name], "a row of the table ends with its C signature"
    check_signature(name, commented()[name])


def declared() -> dict[str, str]:
    """Return the C signatures that the bindings declare."""
    path = Path(bindings.__file__).parent / "cydriver.pxd"
    if not path.exists():
        pytest.skip(f"these bindings come without {path.name}")
    text = path.read_text(encoding="utf-8")
    return dict(re.findall(r"cdef CUresult (cu\w+)\((.*?)\) except", text))


def test_signatures_of_the_bindings() -> None:
    known = declared()
    for name in PROTOTYPES:
        plain = re.sub(r"_v\d$|WithFlags$", "", name)
        check_signature(name, known[plain])


def test_exempt_functions_are_in_the_table() -> None:
    assert set(PROTOTYPES) >= RETURNS_NOT_READY
    assert set(PROTOTYPES) >= BEFORE_INIT


def test_every_row_is_used_and_every_use_is_a_row() -> None:
    used: set[str] = set()
    for path in PACKAGE.glob("*.py"):
        if path.name == "api.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and re.fullmatch(r"cu[A-Z]\w+", node.attr):
                used.add(node.attr)
            elif isinstance(node, ast.Constant) and re.fullmatch(r"cu[A-Z]\w+", str(node.value)):
                used.add(str(node.value))
    stems = {"cuMemsetD8", "cuMemsetD16", "cuMemsetD32"}
    used |= {f"{stem}{end}" for stem in stems for end in ("_v2", "Async")}
    assert used - stems == set(PROTOTYPES)


def test_the_fake_has_every_row() -> None:
    assert [name for name in PROTOTYPES if not hasattr(FakeDriver, name)] == []
