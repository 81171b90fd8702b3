#!/usr/bin/env bash
# ./test.sh: installs what is missing, builds, runs the whole test suite; ctest's summary comes last.
#
#   APC_SANITIZERS=0 ./test.sh    without the second build under the address and undefined-behaviour sanitizers
#
# With sanitizers everything runs but what has the label `slow`; after that, as it is built to be used, everything but
# what has the label `memory` (tests/CMakeLists.txt).  One test more than there are processors runs at a time: some wait
# for most of their time.  What apc compiles for tests is compiled once in a run (tests/kept_cc).
#
# A skipped test is a failure, unless it needs a device this machine does not have (its name begins with gpu.).
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. tools/setup.sh
failed=0 seen=
at_once=$(($(nproc) + 1))

install_missing $build_packages $test_packages || exit 5
rm -rf build/compiled
say "building"
build_preset release build || exit 1

if [ "${APC_SANITIZERS:-1}" != 0 ]; then
  say "building with sanitizers"
  build_preset asan build-asan || exit 1
  say "testing with sanitizers"
  ctest --test-dir build-asan -LE slow --output-on-failure -j $at_once || failed=1
  seen="-LE memory"
fi

say "testing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ctest --test-dir build $seen --output-on-failure -j $at_once | tee "$log"
[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
skipped=$(sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Skipped\|Not Run\).*/\1/p' "$log" | grep -v '^gpu\.')
if [ -n "$skipped" ]; then
  echo "skipped, which counts as a failure:" $skipped >&2
  failed=1
fi
exit $failed
