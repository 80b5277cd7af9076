#!/usr/bin/env bash
# Contract and gate of $METHODS, registered by the files in $PLUGIN, against $REFERENCE.
# The tables go to $PAGE; repfl itself writes them into the job's summary.
set -u

asked=()
for file in $PLUGIN; do asked+=(--plugin "$file"); done
for name in $METHODS; do asked+=(--method "$name"); done
gate=(--reference "$REFERENCE")
code=0
rm -f "$PAGE"

if [ -f "$REFERENCE" ]; then
  repfl check "${asked[@]}" "${gate[@]}" --markdown "$PAGE" || code=$?
else
  repfl check "${asked[@]}" --markdown "$PAGE" || code=$?
  {
    echo
    echo "## Accuracy gate: no reference"
    echo
    echo "Make one, and commit it: \`repfl check ${asked[*]} ${gate[*]} --accept --reason \"first\"\`"
  } | tee -a "$PAGE" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
fi
if [ ! -s "$PAGE" ]; then echo "Nothing was compared; see the log of the job." > "$PAGE"; fi
exit "$code"
