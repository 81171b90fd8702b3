# tools/setup.sh - sourced by demo.sh and test.sh: installs missing Debian packages, configures and builds.

build_packages="gcc libc6-dev cmake ninja-build flex bison pkg-config protobuf-c-compiler libprotobuf-c-dev libonnx-dev
  libexpat1-dev libjansson-dev libdnnl-dev libmbedtls-dev zlib1g-dev"
test_packages="clang-format-14 llvm-14-tools libonnx-testdata python3 python3-onnx python3-numpy python3-pytest openmpi-bin libopenmpi-dev iproute2"

ci_packages="clang chromium"

say() { printf '\n== %s\n' "$*"; }

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# Installs missing packages; needs root or sudo only if there are any.
install_missing() {
  local missing=() package as_root=()
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! command -v apt-get >/dev/null; then
    echo "missing packages (Debian names): ${missing[*]}; apt-get is not available to install them" >&2
    return 5
  fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; installing them needs root or sudo" >&2; return 5; }
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/tmp/apc-apt.$$ 2>&1 ||
    { "${as_root[@]}" apt-get update -q >>/tmp/apc-apt.$$ 2>&1 &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >>/tmp/apc-apt.$$ 2>&1; } ||
    { cat /tmp/apc-apt.$$ >&2; rm -f /tmp/apc-apt.$$; return 5; }
  rm -f /tmp/apc-apt.$$
}

# build_preset PRESET FOLDER [ninja targets]: prints only errors.
build_preset() {
  local preset=$1 folder=$2 log
  shift 2
  log=$(mktemp)
  if cmake --preset "$preset" >"$log" 2>&1 && ninja -C "$folder" "$@" >>"$log" 2>&1; then
    rm -f "$log"
  else
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
}
