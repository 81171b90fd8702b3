#!/bin/bash
# usage: packaging/try.sh BUILD   (as root, with debootstrap and a network; minutes)
# Makes the packages in BUILD, installs them with apt into a new bare Debian, and there compiles and runs the demo's
# model, compares its outputs, and links examples/embed.c with pkg-config.
set -eu
here=$(realpath "$(dirname "$0")/..") build=$(realpath "$1")
root=$(mktemp -d)
trap 'umount "$root/debian/proc" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
cd "$build" && cpack -G DEB -B "$root/packages" >/dev/null
debootstrap --variant=minbase "${SUITE:-bookworm}" "$root/debian" "${MIRROR:-http://deb.debian.org/debian}" >/dev/null
mkdir "$root/debian/try"
mount -t proc proc "$root/debian/proc" # programs find themselves by it
cp "$root"/packages/*.deb "$here"/examples/gpt-tiny.* "$root/debian/try"
chroot "$root/debian" bash -euc '
  cd /try
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update && apt-get install -y ./apc_*.deb; } >log 2>&1 || { cat log; exit 1; }
  apc --version
  apc gpt-tiny.onnx -q --target cpux2 -o gpt-tiny
  ./gpt-tiny --version
  ./gpt-tiny --inputs gpt-tiny.inputs.npz --outputs out.npz
  apc run gpt-tiny.onnx -q --target cpux2 --inputs gpt-tiny.inputs.npz --expect gpt-tiny.outputs.npz
  apt-get install -y ./apc-runtime_*.deb ./apc-dev_*.deb pkg-config >log 2>&1 || { cat log; exit 1; }
  cc /usr/share/doc/apc/examples/embed.c $(pkg-config --cflags --libs apc) -o embed
  ./embed ./gpt-tiny || test $? -eq 2
  apt-get purge -y apc apc-runtime apc-dev >log 2>&1 || { cat log; exit 1; }
  ! find /usr -name "*apc*" -path "*lib*" | grep -E "apcrt|/apc/" || { echo "files remain"; exit 1; }
'
echo ok
