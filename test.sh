#!/usr/bin/env bash
# ./test.sh: installs what is missing, builds, runs the whole test suite; ctest's summary comes last.
#
#   ./test.sh --fast              builds and runs what takes seconds (label fast); installs nothing
#   ./test.sh --all               also what has the label `long`, and more builds: debug, the thread sanitizer, clang with
#                                 fuzzing
#   APC_SANITIZERS=0 ./test.sh    without the build under the address and undefined-behaviour sanitizers
#
# With sanitizers everything runs but what has the label `slow`; after that, as it is built to be used, everything but
# what has the label `memory` or `long` (tests/CMakeLists.txt).  One test more than there are processors runs at a time: some wait
# for most of their time.  What apc compiles for tests is compiled once in a run (tests/kept_cc).
#
# A skipped test is a failure, unless it needs a device this machine does not have (its name begins with gpu.).
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. tools/setup.sh
failed=0 without=
at_once=$(($(nproc) + 1))
case ${1-} in
  "" | --fast | --all) what=${1-} ;;
  *) sed -n '2,7s/^# \?//p' "$0" >&2; exit 2 ;;
esac

# tested FOLDER CTEST_OPTIONS...: runs tests; a failure is remembered.
tested() {
  local folder=$1
  shift
  ctest --test-dir "$folder" --output-on-failure -j $at_once "$@" || failed=1
}

# also PRESET FOLDER CTEST_OPTIONS...: one more build, and tests of it.
also() {
  say "building: $1"
  build_preset "$1" "$2" || { failed=1; return; }
  say "testing: $1"
  tested "${@:2}"
}

if [ "$what" = --fast ]; then
  also release build -L fast
  exit $failed
fi

install_missing $build_packages $test_packages || exit 5
[ "$what" != --all ] || install_missing $all_packages || exit 5
rm -rf build/compiled
say "building"
build_preset release build || exit 1

if [ "${APC_SANITIZERS:-1}" != 0 ]; then
  say "building with sanitizers"
  build_preset asan build-asan || exit 1
  say "testing with sanitizers"
  tested build-asan -LE slow
  without=memory
fi

if [ "$what" = --all ]; then
  also debug build-debug -L fast
  also tsan build-tsan -L threads
  also fuzz build-fuzz -L fast -LE slow # neither under its sanitizers
  say "calls that fail, more of them"
  tests/faults/faults.py build build/tests/libfaults.so 100 || failed=1
  say "fuzzing, some seconds each"
  fuzzed=$(mktemp -d)
  build_preset fuzz build-fuzz fuzzers && SLICE=5 tests/fuzz/hours.sh build-fuzz "$fuzzed" 5 $(cd tests/fuzz && ls fuzz_*.c | sed 's/fuzz_\(.*\)\.c/\1/') || failed=1
  rm -rf "$fuzzed"
fi

[ "$what" = --all ] || without=${without:+$without|}long
say "testing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ctest --test-dir build ${without:+-LE "$without"} --output-on-failure -j $at_once | tee "$log"
[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
skipped=$(sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Skipped\|Not Run\).*/\1/p' "$log" | grep -v '^gpu\.')
if [ -n "$skipped" ]; then
  echo "skipped, which counts as a failure:" $skipped >&2
  failed=1
fi
exit $failed
