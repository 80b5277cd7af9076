#!/usr/bin/env bash
# Contract and gate of $METHODS, registered by the files in $PLUGIN, against $REFERENCE.
# What repfl prints goes to the log, to $PAGE and into the job's summary.
set -u

asked=()
for file in $PLUGIN; do asked+=(--plugin "$file"); done
for name in $METHODS; do asked+=(--method "$name"); done
gate=()
if [ -f "$REFERENCE" ]; then gate=(--reference "$REFERENCE"); fi
code=0
{
  echo '```'
  repfl check "${asked[@]}" "${gate[@]}" 2>&1 || code=$?
  echo '```'
  if [ ! -f "$REFERENCE" ]; then
    echo "There is no reference for the accuracy gate. Make one, and commit it:"
    echo "\`repfl check ${asked[*]} --reference $REFERENCE --accept --reason \"first\"\`"
  fi
} > "$PAGE"
cat "$PAGE"
cat "$PAGE" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
exit "$code"
