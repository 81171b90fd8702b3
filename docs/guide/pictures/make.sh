#!/usr/bin/env bash
# docs/guide/pictures/make.sh - makes the pictures of docs/guide/report.md, with build/apc and a headless Chromium.
set -euo pipefail
cd "$(dirname "$0")/../../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/apc plan examples/gpt.apc -q -D layers=96 -D d=12288 -D heads=96 -D vocab=51200 -D ctx=2048 --dim seq=2048 \
  --dim batch=1536 --dtype bf16 --target dgx-a100x1024 --tp 8 --pp 16 --dp 8 --ep 1 --cp 1 --micro-batches 96 \
  --schedule 1f1b --zero 1 --train cross_entropy --optimizer 'adamw()' --recompute full \
  --emit=html="$folder/report.html" >"$folder/out"
/usr/bin/python3 tests/cli/report_browser.py --shots "$folder" "$folder/report.html"
for mode in light dark; do
  cp "$folder/report-1400-$mode-top.png" "docs/guide/pictures/head-$mode.png"
  cp "$folder/report-1400-$mode-pipeline.png" "docs/guide/pictures/pipeline-$mode.png"
done
