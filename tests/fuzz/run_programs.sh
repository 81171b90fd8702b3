#!/bin/sh
# Compiles seeds and feeds them, and those stored in tests/fuzz/seeds, to fuzz_program or fuzz_artifact.
# usage: run_programs.sh BUILD program|artifact
set -e
here=$(dirname "$0")
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
"$here/seed_programs.sh" "$1" "$seeds"
stored=
[ -d "$here/seeds/$2" ] && stored=$here/seeds/$2
"$1/tests/fuzz_$2" -n 1000 "$seeds/$2" $stored
