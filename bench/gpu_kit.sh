#!/usr/bin/env bash
# Fill some minutes of a machine with planned cells, and pack what ended.
#
#   bench/gpu_kit.sh MINUTES OUT [ORDER]
#
# ORDER has the options of one `repfl run` a line, the most wanted first; by default
# paper_tables/gpu_order.txt. Cells that are there are not computed again, one that is stopped goes on
# from its checkpoint next time. OUT/records.tar.gz holds records without models: unpack it into a
# results folder, then `repfl collect`. DEVICE (cuda), PER_GPU (8) and REPFL_RESULTS are read.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
minutes=$1 out=$2 order=${3:-$(dirname "$0")/../paper_tables/gpu_order.txt}
results=${REPFL_RESULTS:-results} device=${DEVICE:-cuda}
end=$(($(date +%s) + minutes * 60 - 20)) # the rest is for packing
mkdir -p "$out" "$results"
options=(--device "$device" --results "$results")
if [ "$device" = cuda ]; then
  options+=(--per-gpu "${PER_GPU:-8}")
  command -v nvidia-cuda-mps-control >/dev/null && nvidia-cuda-mps-control -d || true
fi
while read -r line; do
  case $line in '' | '#'*) continue ;; esac
  left=$((end - $(date +%s)))
  [ "$left" -gt 0 ] || break
  echo "repfl run $line ($left s left)"
  # shellcheck disable=SC2086 # a line is several options
  timeout --signal=TERM "$left" repfl run $line "${options[@]}" || echo "ended with $?"
done <"$order"
tar --create --gzip --file "$out/records.tar.gz" --directory "$results" \
  --exclude='*.safetensors' --exclude='*/running*' --exclude='./.*' .
echo "$out/records.tar.gz: $(tar --list --gzip --file "$out/records.tar.gz" | grep -c record.json) records"
