#!/bin/bash
# The commands of README.md print the output shown there; only times and distances measured here may differ.
. "$(dirname "$0")/lib.sh"
ln -s "$source_dir/examples" examples
readme=$source_dir/README.md

# readme_block N: the lines of the N-th fenced block
readme_block() { awk -v n="$1" '/^```/ { fences++; next } fences == 2 * n - 1' "$readme"; }
commands() { readme_block 3 | sed -n 's/ *#.*//; s/^build\/apc/"$apc"/p'; }
mask() { sed -E 's/found in [0-9.]+ m?s/found in TIME/; s/[0-9.]+e-[0-9]+/DISTANCE/g' "$1"; }

shows() { # shows COMMAND BLOCK
  expect 0 "" bash -c "$(commands | grep -- "$1")"
  readme_block "$2" >said
  check "README.md shows something else than '$1' prints" diff <(mask said) <(mask out)
}
export apc LC_ALL=C.UTF-8
expect 0 "" bash -c "$(commands | grep -- "-o gpt")"
expect 0 "" bash -c "$(readme_block 3 | grep '^\./gpt')"
shows " plan " 4
shows " verify " 5
summary 6
