#!/usr/bin/env bash
# ./test.sh: installs what is missing, builds, runs the whole test suite; ctest's summary comes last.
#
#   APC_SANITIZERS=0 ./test.sh    without the second build under the address and undefined-behaviour sanitizers
#
# A skipped test is a failure, unless it needs a device this machine does not have (its name begins with gpu.).
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. tools/setup.sh
failed=0

install_missing $build_packages $test_packages || exit 5
say "building"
build_preset release build || exit 1

if [ "${APC_SANITIZERS:-1}" != 0 ]; then
  say "building with sanitizers"
  build_preset asan build-asan || exit 1
  say "testing with sanitizers"
  ctest --test-dir build-asan -LE slow --output-on-failure -j "$(nproc)" || failed=1
fi

say "testing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ctest --test-dir build --output-on-failure -j "$(nproc)" | tee "$log"
[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
skipped=$(sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Skipped\|Not Run\).*/\1/p' "$log" | grep -v '^gpu\.')
if [ -n "$skipped" ]; then
  echo "skipped, which counts as a failure:" $skipped >&2
  failed=1
fi
exit $failed
