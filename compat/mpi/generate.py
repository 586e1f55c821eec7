# SPDX-License-Identifier: Apache-2.0
"""Writes the two faces of the library: MPI_ names as MPICH has them, MPIABI_ names as MPItrampoline asks for them.

generate.py CALLS [NAMES CONSTANTS]: C goes to the standard output; with CALLS alone the header of what does the work.
"""
import re
import sys

HANDLES = {"comm", "type", "op", "request", "group", "errhandler", "info", "message"}
CASTS = ["Comm", "Type", "Group", "Request", "File", "Win", "Op", "Info", "Errhandler", "Message"]
PARAMETER = re.compile(r"(?:const )?(\w+)(?: (\*?)(\w+)(?:\[(\w+)\])?)?$")


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def handle(face, star, name, count, kind):
    """A handle: 4 bytes as MPICH has it, 8 as MPItrampoline has it."""
    if face == "MPI":
        return [f"int {star or ('*' if count else '')}{name}"], [], [name], []
    if count:
        return ([f"wide_t *{name}"], [f"int *{name}_ = narrow({name}, {count});"], [f"{name}_"],
                [f"widen({name}, {name}_, {count});"])
    if star:
        return ([f"wide_t *{name}"], [f"int {name}_ = (int)*{name};"], [f"&{name}_"],
                [f"*{name} = (unsigned)({name}_);"])
    return [f"wide_t {name}"], [], [f"(int){name}"], []


def status(face, constant, name, count):
    kind = "short_status" if face == "MPI" else "long_status"
    if constant:
        return ([f"const struct {kind} *{name}"], [f"struct status {name}_ = {kind}_read({name});"], [f"&{name}_"], [])
    if count:
        return ([f"struct {kind} *{name}"], [f"struct status *{name}_ = statuses({count});"], [f"{name}_"],
                [f"{kind}_all({name}, {name}_, {count}, result);"])
    return ([f"struct {kind} *{name}"], [f"struct status {name}_ = EMPTY_STATUS;"], [f"&{name}_"],
            [f"{kind}_store({name}, &{name}_);"])


def parameter(face, text):
    """What a parameter is in the face, what stands before the call, in it, and behind it."""
    if text == "abi":
        return [], [], ["ABI_MPICH" if face == "MPI" else "ABI_TRAMPOLINE"], []
    kind, star, name, count = PARAMETER.match(text).groups() if PARAMETER.match(text) else ("", "", "", "")
    if kind in HANDLES:
        return handle(face, star, name or kind, count, kind)
    if kind == "status":
        return status(face, text.startswith("const"), name, count)
    return [text], [], [re.search(r"(\w+)$", text).group(1)], []


def core(text):
    """The parameter of the call that does the work."""
    if text == "abi":
        return "enum abi abi"
    kind, star, name, count = PARAMETER.match(text).groups() if PARAMETER.match(text) else ("", "", "", "")
    if kind in HANDLES:
        return f"int {'*' if star or count else ''}{name or kind}"
    if kind == "status":
        return f"{'const ' if text.startswith('const') else ''}struct status *{name}"
    return text


def wrapper(face, name, parameters):
    parts = [parameter(face, text) for text in parameters]
    declared, before, passed, behind = ([item for part in parts for item in part[i]] for i in range(4))
    print(f"int {face}_{name}({', '.join(declared) or 'void'});")
    print(f"int {face}_{name}({', '.join(declared) or 'void'})\n{{")
    call = f"shim_{name}({', '.join(passed)})"
    if not behind:
        print("".join(f"    {line}\n" for line in before) + f"    return {call};\n}}\n")
    else:
        print("".join(f"    {line}\n" for line in before) + f"    int result = {call};\n"
              + "".join(f"    {line}\n" for line in behind) + "    return result;\n}\n")


def constants(path):
    for row in rows(path):
        name, kind, value = (word.strip() for word in row.split("|"))
        name = name.replace("MPI_", "MPIABI_", 1)
        if kind in ("int", "MPI_Offset"):
            print(f"const {'int64_t' if kind != 'int' else 'int'} {name} = (int){value};")
        elif kind.endswith("*") and not re.match(r"-?\d", value):
            print(f"void *const {name} = (void *){value};")
        elif kind.endswith("*"):
            print(f"void *const {name} = (void *)(intptr_t){value};")
        else:
            print(f"const wide_t {name} = (unsigned){value};")


def main():
    calls, *others = sys.argv[1:]
    if others:
        print('#include "mpi/calls.h"\n#include "mpi/face.h"\n\n#pragma GCC visibility push(default)\n')
    else:
        print('/* Generated. */\n#include "mpi/shim.h"\n')
    for row in rows(calls):
        name, _, rest = row.partition("(")
        parameters = [text.strip() for text in rest.rstrip(")").split(",") if text.strip()]
        if not others:
            print(f"int shim_{name}({', '.join(core(text) for text in parameters) or 'void'});")
            continue
        for face in ("MPI", "MPIABI"):
            wrapper(face, name, parameters)
    if not others:
        return
    names, values = others
    for name in rows(names):
        for face in (["MPI", "MPIABI"] if name.startswith("MPI_") else ["MPIXABI"]):
            made = re.sub("^MPIX?_", face + "_", name)
            print(f'int {made}(void);\nint {made}(void)\n{{\n    return shim_refuse("{name}");\n}}\n')
    for name in CASTS:
        for made in (f"MPIABI_{name}_f2c", f"MPIABI_{name}_c2f"):
            kinds = ("wide_t", "int") if made.endswith("f2c") else ("int", "wide_t")
            print(f"{kinds[0]} {made}({kinds[1]} h);\n{kinds[0]} {made}({kinds[1]} h)\n{{\n    return "
                  f"({kinds[0]})({'unsigned' if kinds[0] == 'wide_t' else 'int'})h;\n}}\n")
    constants(values)


main()
