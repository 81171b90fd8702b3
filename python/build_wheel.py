#!/usr/bin/env python3
"""Builds the wheel of the package `apc`: python3 python/build_wheel.py [--build FOLDER] [--out FOLDER]

Builds the compiler, its stub and libapcrt.so in FOLDER (default: build-wheel) so that they find shared libraries in
their own folder ($ORIGIN), and packs them with the Python files.  Shared libraries that manylinux does not promise go
into the wheel, with their licenses.  The tag is computed: manylinux_2_N, with the newest version of glibc that any
file of the wheel needs (objdump -T).  oneDNN, which programs open when they run, goes into it as well, with what it
needs.  The same input gives the same bytes.  Needs only Python's standard library and binutils.
"""
import argparse
import base64
import hashlib
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PROGRAMS = ("apc", "apcrt-stub", "libapcrt.so.0")
# Libraries that every system with this glibc has: the policy of manylinux (PEP 600).
PROMISED = re.compile(r"(ld-linux-[\w-]+|lib(c|m|dl|pthread|rt|util|resolv|z|gcc_s|stdc\+\+))\.so")


def said(*words):
    return subprocess.run([str(w) for w in words], check=True, stdout=subprocess.PIPE, text=True).stdout


def build(folder):
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", "-DCMAKE_INSTALL_RPATH=$ORIGIN"], check=True)
    subprocess.run(["ninja", "-C", folder, "apc", "apcrt-stub", "apcrt_shared"], check=True)
    for name in PROGRAMS:
        bundled = any(not PROMISED.match(n) for n in needed(folder / name))
        if bundled and "[$ORIGIN]" not in said("readelf", "-d", folder / name):
            sys.exit(f"build_wheel.py: {name} would not look for libraries in its own folder alone")


def needed(file):
    """The libraries that a file needs directly: the name, and where the loader of this machine finds it."""
    names = re.findall(r"NEEDED +(\S+)", said("objdump", "-p", file))
    places = dict(re.findall(r"(\S+) => (\S+)", said("ldd", file)))
    return {name: places.get(name) for name in names}


def onednn():
    """The oneDNN of this machine, by the name under which programs open it."""
    known = dict(re.findall(r"(libdnnl\.so\.[23]) .*=> (\S+)", said("/sbin/ldconfig", "-p")))
    if not known:
        sys.exit("build_wheel.py: there is no oneDNN to put into the wheel (Debian: apt-get install libdnnl2)")
    name = max(known)
    return {name: Path(known[name]).resolve()}


def others(files):
    """The libraries to bundle, over all steps."""
    found, todo = {}, list(files)
    while todo:
        for name, place in needed(todo.pop()).items():
            if PROMISED.match(name) or name in found:
                continue
            if place is None or not Path(place).is_file():
                sys.exit(f"build_wheel.py: {name} is needed and not found")
            found[name] = Path(place).resolve()
            todo.append(found[name])
    return found


def tag(files):
    """The platform tag, from the newest symbol version of glibc."""
    versions = {tuple(map(int, v.split("."))) for f in files
                for v in re.findall(r"\(?GLIBC_(\d+\.\d+)(?:\.\d+)?\)?", said("objdump", "-T", f))}
    newest = max(versions)
    return f"py3-none-manylinux_{newest[0]}_{newest[1]}_{platform.machine()}"


def license_of(library):
    """The license text of a bundled library, where Debian keeps it; without it the wheel may not be passed on."""
    for place in (library, Path("/usr") / library.relative_to("/"), Path("/") / library.relative_to("/usr")
                  if library.is_relative_to("/usr") else library):
        done = subprocess.run(["dpkg", "-S", str(place)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if done.returncode == 0:
            text = Path("/usr/share/doc") / done.stdout.split(":")[0] / "copyright"
            if text.is_file():
                return text.read_bytes()
    sys.exit(f"build_wheel.py: no license text for {library}")


def metadata(version):
    return (f"Metadata-Version: 2.1\nName: apc\nVersion: {version}\n"
            "Summary: Compiles neural networks for several ranks, and runs them\n"
            "Requires-Python: >=3.10\nRequires-Dist: numpy\n"
            "Provides-Extra: torch\nRequires-Dist: torch; extra == 'torch'\nRequires-Dist: onnxscript; extra == 'torch'\n"
            "Provides-Extra: bf16\nRequires-Dist: ml_dtypes; extra == 'bf16'\n").encode()


def pack(folder, out, compression=zipfile.ZIP_DEFLATED):
    """Writes the wheel from the programs in `folder`, and returns its path."""
    version = re.search(r"project\(apc\s+VERSION\s+([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    programs = [(Path(folder) / name).resolve() for name in PROGRAMS]
    opened = onednn()
    libraries = opened | others([*programs, *opened.values()])
    native = dict(zip(PROGRAMS, programs)) | libraries
    name = tag(native.values())
    info = f"apc-{version}.dist-info"
    files = {f"apc/{p.name}": (p.read_bytes(), 0o644) for p in sorted((HERE / "apc").glob("*.py"))}
    files["apc/py.typed"] = (b"", 0o644)
    files |= {f"apc/_native/{n}": (p.read_bytes(), 0o755) for n, p in sorted(native.items())}
    files["apc/_native/apc_runtime.h"] = ((ROOT / "runtime/apc_runtime.h").read_bytes(), 0o644)
    files["apc/_native/apc_operator.h"] = ((ROOT / "program/apc_operator.h").read_bytes(), 0o644)
    files[f"{info}/METADATA"] = (metadata(version), 0o644)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: build_wheel.py\nRoot-Is-Purelib: false\nTag: {name}\n"
                              .encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (b"[console_scripts]\napc = apc._tool:main\n", 0o644)
    files[f"{info}/licenses/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)
    files |= {f"{info}/licenses/{n}": (license_of(p), 0o644) for n, p in sorted(libraries.items())}
    record = "".join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(d).digest()).rstrip(b'=').decode()},{len(d)}\n"
                     for n, (d, _) in files.items())
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    Path(out).mkdir(parents=True, exist_ok=True)
    path = Path(out) / f"apc-{version}-{name}.whl"
    with zipfile.ZipFile(path, "w", compression) as z:
        for n, (data, mode) in files.items():
            member = zipfile.ZipInfo(n, (2020, 1, 1, 0, 0, 0))
            member.external_attr, member.compress_type = (0o100000 | mode) << 16, compression
            z.writestr(member, data)
    return path


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default=ROOT / "build-wheel", type=Path, help="folder to build in (build-wheel)")
    p.add_argument("--out", default=ROOT / "build-wheel", type=Path, help="folder of the wheel (build-wheel)")
    a = p.parse_args()
    build(a.build)
    print(pack(a.build, a.out))


if __name__ == "__main__":
    main()
