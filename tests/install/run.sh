#!/bin/bash
# usage: run.sh BUILD CC FLAG
# Installs into a prefix, moves the prefix, hides the build folder (in a mount namespace, if that is allowed), then uses
# the installed files: apc, its programs, apc.pc with examples/embed.c, find_package(apc).
set -eu
build=$(realpath "$1") cc=$2 flag=$3
[ "$flag" = -fsanitize= ] && flag=

if [ "${4:-}" != hidden ]; then
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  cmake --install "$build" --prefix "$dir/first" --strip >"$dir/log"
  # after a build of some targets the rest is built first: all installed files that configuring does not make
  grep -qE '^ninja: |^\[' "$dir/log" || { echo "installing builds nothing"; exit 1; }
  ninja -C "$build" -t query installed | tr -d ' |' >"$dir/built"
  ! grep -qx apc-documents "$dir/built" || ninja -C "$build" -t query apc-documents | tr -d ' |' >>"$dir/built"
  for f in $(grep -A 5 'file(INSTALL' "$build/cmake_install.cmake" | grep -o "\"$build/[^\"]*" | sed "s|^\"$build/||" | grep -vE '^apc(\.pc|Config.*)$' | sort -u); do
    grep -qxF -e "$f" -e "${f%.so.*}.so" "$dir/built" || { echo "installing does not build $f"; exit 1; }
  done
  mv "$dir/first" "$dir/prefix"
  cp "$0" "$dir/run.sh"
  if grep -rlF "$build" "$dir/prefix"; then echo "these files name the build folder"; exit 1; fi
  if unshare -rm true 2>/dev/null; then
    unshare -rm bash -c 'mount -t tmpfs none "$1" && shift && exec "$@"' - "$build" bash "$dir/run.sh" "$build" "$cc" "$3" hidden "$dir"
  else
    bash "$dir/run.sh" "$build" "$cc" "$3" hidden "$dir"
  fi
  exit
fi

dir=$5 prefix=$5/prefix
cd "$dir"
export TMPDIR=$dir PATH=$prefix/bin:$PATH
unset APC_TARGET APC_CALIBRATION
fail() { echo "FAILED: $*"; exit 1; }
for f in share/man/man1/apc.1 share/man/man1/apc-opt.1 share/man/man1/apc-model.1 share/man/man5/apc-targets.5 share/man/man5/apc-plan.5 \
  share/bash-completion/completions/apc share/zsh/site-functions/_apc share/fish/vendor_completions.d/apc.fish; do
  test -s "$prefix/$f" || fail "$f is missing"
done

# the compiler: a model with the layer library, a built-in target, the stub
mlp=$prefix/share/doc/apc/examples/mlp.apc
test "$(command -v apc)" = "$prefix/bin/apc" || fail "another apc"
apc "$mlp" -q -D d=16 -D hidden=32 -D layers=2 --dim batch=12 --target cpux2 -o model
./model --input x=random:1 --outputs two.npz >said || fail "the program does not run"
apc run "$mlp" -q -D d=16 -D hidden=32 -D layers=2 --dim batch=12 --target cpu --input x=random:1 --expect two.npz | grep -q equal || fail "apc run"
apc verify "$mlp" -q -D d=16 -D hidden=32 -D layers=2 --dim batch=12 --target cpux2 | grep -q proved || fail "apc verify"
apc targets show dgx-h100 | grep -q '^machine dgx-h100' || fail "built-in targets"
apc convert "$mlp" -q -D d=16 -D hidden=32 -D layers=2 m.ir && apc-opt --passes=dce m.ir | grep -q 'func @' || fail "apc-opt"
cp -r "$prefix" elsewhere # a prefix can be moved
elsewhere/bin/apc "$mlp" -q -D d=16 -D hidden=32 -D layers=2 --dim batch=12 --target cpux2 -o again
cmp model again || fail "the same compiler at another place writes another program"

# the library through pkg-config
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
pc=$(find "$prefix" -name apc.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
# shellcheck disable=SC2046,SC2086
"$cc" $flag -Wall -Wextra -Werror "$prefix/share/doc/apc/examples/embed.c" $(pkg-config --cflags --libs apc) -o embed
lib=$(pkg-config --variable=libdir apc)
env -u LD_LIBRARY_PATH ./embed ./model 2>said || true
grep -q 'libapcrt.so.0' said || fail "embed.c is not linked with libapcrt.so.0"
LD_LIBRARY_PATH=$lib ./embed ./model | tee said
grep -q '^y: 12 .*; 2 ranks' said || fail "embed.c through pkg-config"
# shellcheck disable=SC2046,SC2086
"$cc" $flag "$prefix/share/doc/apc/examples/embed.c" $(pkg-config --static --cflags --libs apc | sed 's/-lapcrt/-l:libapcrt.a/') -o static
env -u LD_LIBRARY_PATH ./static ./model | grep -q '; 2 ranks' || fail "embed.c with libapcrt.a"

# and through CMake
mkdir project
cat >project/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(embed LANGUAGES C)
find_package(apc 0.1 REQUIRED)
add_executable(embed "$prefix/share/doc/apc/examples/embed.c")
target_compile_options(embed PRIVATE $flag)
target_link_options(embed PRIVATE $flag)
target_link_libraries(embed PRIVATE apc::runtime)
add_executable(embed_shared "$prefix/share/doc/apc/examples/embed.c")
target_compile_options(embed_shared PRIVATE $flag)
target_link_options(embed_shared PRIVATE $flag)
target_link_libraries(embed_shared PRIVATE apc::runtime_shared)
add_custom_command(OUTPUT model COMMAND \${APC_COMPILER} "$mlp" -q -D d=16 -D hidden=32 -D layers=2 --dim batch=12 --target cpux2 -o model VERBATIM)
add_custom_target(model_program ALL DEPENDS model)
CMAKE
env -u CMAKE_C_COMPILER_LAUNCHER cmake -S project -B project/build -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" >log && cmake --build project/build >>log || { cat log; fail "find_package(apc)"; }
for p in embed embed_shared; do
  project/build/$p project/build/model | grep -q '; 2 ranks' || fail "$p through find_package"
done
echo ok
