#!/bin/bash
# usage: deb.sh BUILD SOURCE
# Makes the Debian packages twice, to the same bytes; checks their dependencies, files and permissions; unpacks them and
# runs the demo's model from there.  packaging/try.sh installs them into a bare Debian.
set -eu
build=$(realpath "$1") source=$(realpath "$2")
for tool in dpkg-deb dpkg-shlibdeps cpack; do command -v $tool >/dev/null || { echo "no $tool: skipped"; exit 77; }; done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
export SOURCE_DATE_EPOCH=1700000000
for i in 1 2; do (cd "$build" && cpack -G DEB -B "$dir/$i") >"$dir/log" 2>&1 || { cat "$dir/log"; fail cpack; }; done
cd "$dir"
version=$(dpkg-deb -f 1/apc_*.deb Version)
for package in apc apc-runtime apc-dev; do
  deb=$(echo 1/"${package}"_*.deb)
  cmp "$deb" "2/${deb#1/}" || fail "two runs of cpack differ"
  dpkg-deb -c "$deb" >list
  ! awk '$1 !~ /^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--|lrwxrwxrwx)$/ || $2 != "root/root"' list | grep . || fail "$package: permissions"
  for file in copyright changelog.gz; do grep -q "/usr/share/doc/$package/$file$" list || fail "$package: no $file"; done
  dpkg-deb -x "$deb" root
  dpkg-deb -I "$deb" md5sums >md5sums
  (cd root && md5sum --quiet -c ../md5sums) || fail "$package: md5sums"
done
! grep -rlF -e "$build" -e "$source/" root || fail "these files name the folder of the build"
depends() { dpkg-deb -f 1/"$1"_*.deb "$2" | grep -qF "$3" || fail "$1: $2 without $3"; }
depends apc Depends "gcc | c-compiler"
depends apc Depends "libc6 (>="
depends apc Depends "libjansson4"
depends apc-runtime Depends "libc6 (>="
depends apc-dev Depends "apc-runtime (= $version)"
dpkg-deb -I 1/apc-runtime_*.deb shlibs | grep -q '^libapcrt 0 apc-runtime' || fail "no shlibs"
# every manual page and completion is in the package; the model runs
for f in man/man1/apc.1.gz man/man1/apc-model.1.gz man/man5/apc-plan.5.gz bash-completion/completions/apc; do
  test -s root/usr/share/$f || fail "no $f"
done
cp "$source"/examples/gpt-tiny.* .
root/usr/bin/apc gpt-tiny.onnx -q --target cpux2 -o gpt-tiny
./gpt-tiny --inputs gpt-tiny.inputs.npz --outputs out.npz 2>/dev/null
root/usr/bin/apc run gpt-tiny.onnx -q --target cpu --inputs gpt-tiny.inputs.npz --expect out.npz | grep -q equal || fail "other outputs"
echo ok
