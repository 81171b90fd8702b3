#!/bin/bash
# tour.sh APC DOCUMENTS COMMANDS [all]: the commands of documents print what they say; only times, distances and floats
# measured here may differ.  The documents, which share a folder, have at least so many commands.
#
# Commands are the lines "$ COMMAND" of blocks fenced by ``` alone; the lines below each are its output.  A command that
# ends in \ goes on in the next line.  With "all", standard error is part of the output, without the stages of a
# compilation, which a terminal shows for a moment only.
. "$(dirname "$0")/lib.sh"
documents=$2 least=$3 all=${4-}
ln -s "$source_dir/examples" examples
ln -s "$source_dir/program" program
[ -z "$all" ] || cp "$source_dir"/examples/largest.* .
ln -s "$(dirname "$apc")" build
export LC_ALL=C.UTF-8 PATH=$work/build:$PATH
python3() { /usr/bin/python3 "$@"; } # the one that has numpy
mask() {
  sed -E 's/found in [0-9.]+ m?u?s/found in TIME/; s/[0-9.]+e-[0-9]+/DISTANCE/g' |
    if [ "$all" ]; then
      sed -E '/^ *(Reading|Simplifying|Planning|Lowering|Compiling|Proving|Running|Interpreting) /d
        s/(Finished .*) in [0-9.]+ s/\1 in TIME/; s/^(time  *)[0-9.]+ m?u?s/\1TIME/; s/^((step|eval) .* )[0-9.]+ m?s$/\1TIME/
        s/(loss|grad_norm|largest difference|relative L2|mean|magnitude) -?[0-9.]+/\1 NUMBER/g
        s/(^|[ =])-?[0-9]\.[0-9]{3,}( |$)/\1NUMBER\2/g'
    else cat; fi
}

commands=0
finish() {
  [ -n "$last" ] || return
  commands=$((commands + 1))
  if [ "$all" ]; then eval "$last" >out 2>&1 </dev/null; : >err; else eval "$last" >out 2>err </dev/null; fi
  check "$document shows something else" diff <(mask <said) <(mask <out)
  [ "$all" ] || only_wrote
  last=
}
block= # the fence of the block around the line
for document in $documents; do
  while IFS= read -r line; do
    case $line in
    '```'*) finish; if [ "$block" ]; then block=; else block=$line; fi ;;
    '$ '*) if [ "$block" = '```' ]; then finish; last=${line#'$ '}; : >said; fi ;;
    *)
      if [ "${last: -1}" = '\' ] && [ ! -s said ]; then last=${last%?}$line
      elif [ "$block" ]; then printf '%s\n' "$line" >>said; fi
      ;;
    esac
  done <"$source_dir/docs/$document"
done
check "$least commands or more" test $commands -ge "$least"
if [ "$all" ]; then summary $((least + 1)); else summary $((2 * least + 1)); fi
