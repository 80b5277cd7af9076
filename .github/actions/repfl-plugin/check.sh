#!/usr/bin/env bash
# Contract and gate of $METHODS, registered by the files in $PLUGIN, against $REFERENCE.
# The tables go to $PAGE; repfl itself writes them into the job's summary.
set -u

asked=()
for file in $PLUGIN; do asked+=(--plugin "$file"); done
part="$PAGE.part"
code=0
: > "$PAGE"

for name in $METHODS; do
  rm -f "$part"
  repfl methods "$name" ${asked[@]+"${asked[@]}"} --contract --markdown "$part" || code=$?
  if [ -f "$part" ]; then cat "$part" >> "$PAGE"; fi
done

for name in $METHODS; do asked+=(--method "$name"); done
asked+=(--reference "$REFERENCE")
if [ -f "$REFERENCE" ]; then
  rm -f "$part"
  repfl check "${asked[@]}" --markdown "$part" || code=$?
  if [ -f "$part" ]; then cat "$part" >> "$PAGE"; fi
else
  {
    echo "## Accuracy gate: no reference"
    echo
    echo "Make one, and commit it: \`repfl check ${asked[*]} --accept --reason \"first\"\`"
  } | tee -a "$PAGE" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
fi
if [ ! -s "$PAGE" ]; then echo "Nothing was compared; see the log of the job." > "$PAGE"; fi
exit "$code"
