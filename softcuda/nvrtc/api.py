"""The prototypes of every NVRTC function that softcuda calls, and what its results mean.

A row holds the argument types, with the C signature as a comment. All functions return an
nvrtcResult. Source: NVRTC documentation, chapter "User Interface".
"""

from __future__ import annotations

from ctypes import POINTER, c_char_p, c_int, c_size_t, c_void_p
from typing import Any, Final

__all__ = ["COMPILATION_FAILED", "INVALID_OPTION", "NVRTC_PROTOTYPES", "NVRTC_RESULTS"]

COMPILATION_FAILED: Final = 6
INVALID_OPTION: Final = 5

_H = c_void_p  # nvrtcProgram
_S = c_char_p
_I, _N = c_int, c_size_t
_IR, _NR, _HR, _SR = map(POINTER, (_I, _N, _H, _S))

# fmt: off
NVRTC_PROTOTYPES: Final[dict[str, tuple[Any, ...]]] = {
    "nvrtcVersion": (_IR, _IR),  # int *major, int *minor
    "nvrtcGetNumSupportedArchs": (_IR,),  # int *numArchs
    "nvrtcGetSupportedArchs": (_IR,),  # int *supportedArchs
    "nvrtcCreateProgram": (_HR, _S, _S, _I, _SR, _SR),
    # nvrtcProgram *prog, const char *src, const char *name, int numHeaders, const char *const
    # *headers, const char *const *includeNames
    "nvrtcDestroyProgram": (_HR,),  # nvrtcProgram *prog
    "nvrtcAddNameExpression": (_H, _S),  # nvrtcProgram prog, const char *const name_expression
    "nvrtcCompileProgram": (_H, _I, _SR),
    # nvrtcProgram prog, int numOptions, const char *const *options
    "nvrtcGetLoweredName": (_H, _S, _SR),
    # nvrtcProgram prog, const char *const name_expression, const char **lowered_name
    "nvrtcGetProgramLogSize": (_H, _NR),  # nvrtcProgram prog, size_t *logSizeRet
    "nvrtcGetProgramLog": (_H, _S),  # nvrtcProgram prog, char *log
    "nvrtcGetCUBINSize": (_H, _NR),  # nvrtcProgram prog, size_t *cubinSizeRet
    "nvrtcGetCUBIN": (_H, _S),  # nvrtcProgram prog, char *cubin
    "nvrtcGetPTXSize": (_H, _NR),  # nvrtcProgram prog, size_t *ptxSizeRet
    "nvrtcGetPTX": (_H, _S),  # nvrtcProgram prog, char *ptx
}
# fmt: on

NVRTC_RESULTS: Final[dict[int, str]] = {
    0: "NVRTC_SUCCESS",
    1: "NVRTC_ERROR_OUT_OF_MEMORY",
    2: "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
    3: "NVRTC_ERROR_INVALID_INPUT",
    4: "NVRTC_ERROR_INVALID_PROGRAM",
    5: "NVRTC_ERROR_INVALID_OPTION",
    6: "NVRTC_ERROR_COMPILATION",
    7: "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
    8: "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
    9: "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
    10: "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
    11: "NVRTC_ERROR_INTERNAL_ERROR",
    12: "NVRTC_ERROR_TIME_FILE_WRITE_FAILED",
    13: "NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED",
    14: "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED",
    15: "NVRTC_ERROR_PCH_CREATE",
    16: "NVRTC_ERROR_CANCELLED",
    17: "NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED",
    18: "NVRTC_ERROR_BUSY",
}
