#!/bin/bash
# tour.sh APC DOCUMENT COMMANDS: the commands of a document print the output shown there; only times and distances
# measured here may differ.  It has at least so many commands.
. "$(dirname "$0")/lib.sh"
document=$2 least=$3
ln -s "$source_dir/examples" examples
ln -s "$(dirname "$apc")" build
export LC_ALL=C.UTF-8
mask() { sed -E 's/found in [0-9.]+ m?u?s/found in TIME/; s/[0-9.]+e-[0-9]+/DISTANCE/g'; }

# The fenced blocks, one command after the other in this shell; "$ COMMAND", then what it prints.
commands=0
finish() {
  [ -n "$last" ] || return
  commands=$((commands + 1))
  eval "$last" >out 2>err </dev/null
  check "docs/$document shows something else" diff <(mask <said) <(mask <out)
  only_wrote
  last=
}
while IFS= read -r line; do
  case $line in
  '```') finish; code=$((1 - ${code:-0})) ;;
  '$ '*) finish; last=${line#'$ '}; : >said ;;
  *) [ "${code:-0}" = 0 ] || printf '%s\n' "$line" >>said ;;
  esac
done <"$source_dir/docs/$document"
check "$least commands or more" test $commands -ge "$least"
summary $((2 * least + 1))
