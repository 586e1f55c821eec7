# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of the library that was built here, installs it into an empty folder,
and uses it with nothing else in reach.

wheel.py BUILD ROOT
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM = """
import numpy, tutti
assert tutti.__file__.startswith({site!r}), tutti.__file__
comm = tutti.init()
ones = numpy.ones(10)
comm.allreduce(ones)
assert (ones == 2).all()
comm.destroy()
"""


def installed(build, folder):
    """The library and the program as `meson install` leaves them: their folder."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True,
                   env={**os.environ, "DESTDIR": folder})
    options = {o["name"]: o["value"] for o in json.loads(subprocess.run(
        ["meson", "introspect", "--buildoptions", build], check=True, capture_output=True, text=True).stdout)}
    prefix = folder + options["prefix"]
    if options["libdir"] != "lib":
        shutil.copytree(os.path.join(prefix, options["libdir"]), os.path.join(prefix, "lib"), dirs_exist_ok=True)
    return prefix


def main():
    build, root = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")  # pip leaves build folders behind in the sources
        for part in ("bindings/python", "include"):
            shutil.copytree(os.path.join(root, part), os.path.join(source, part),
                            ignore=shutil.ignore_patterns("build", "__pycache__", "*.egg-info"))
        env = {**os.environ, "TUTTI_PREFIX": installed(build, os.path.join(folder, "installed")), "PIP_NO_INPUT": "1"}
        subprocess.run([sys.executable, "-m", "pip", "-q", "wheel", "--no-build-isolation", "--no-deps", "-w", folder,
                        os.path.join(source, "bindings/python")], check=True, env=env)
        wheel, = glob.glob(os.path.join(folder, "tutti-*-py3-none-*.whl"))
        site = os.path.join(folder, "site")
        subprocess.run([sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", site, wheel], check=True)
        clean = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
        program = os.path.join(folder, "program.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(site=site))
        subprocess.run([sys.executable, "-m", "tutti.run", "-n", "2", "--", sys.executable, program], check=True,
                       env={**clean, "PYTHONPATH": site})
        print(f"{os.path.basename(wheel)}: {os.path.getsize(wheel) // 1024} KiB, installed and used")


main()
