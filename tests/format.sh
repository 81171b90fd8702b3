#!/usr/bin/env bash
# tests/format.sh SOURCE_DIR - checks that C is formatted as .clang-format says, within 120 columns, and that paragraphs
# of documents keep to 120 columns as well.
cd "$1" || exit 1
formatter=clang-format-14
command -v $formatter >/dev/null || { echo "$formatter is missing (Debian: clang-format-14)"; exit 1; }
failed=0
mapfile -t sources < <(find base bench codegen driver examples frontend ir passes program runtime tests tools -name '*.[ch]')
[ ${#sources[@]} -gt 500 ] || { echo "only ${#sources[@]} sources were found"; exit 1; }
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 40 $formatter --dry-run --Werror || failed=1
awk 'length > 120 { print FILENAME ":" FNR ": " length " columns"; found = 1 } END { exit found }' "${sources[@]}" || failed=1
for document in *.md docs/*.md docs/*/*.md; do
  [ "$document" != docs/status.md ] || continue # written by apc-status
  awk '/^```/ { code = !code }
       !code && length > 120 && !/^\|/ && !/^    / { print FILENAME ":" FNR ": " length " columns"; found = 1 }
       END { exit found }' "$document" || failed=1
done
exit $failed
