#!/usr/bin/env bash
# Puts $PAGE on pull request $NUMBER: into the comment that an earlier run made, or a new one.
# A pull request from a fork gives no permission for that; the table is in the job's summary.
set -u

[ -s "$PAGE" ] || exit 0
export MARK="<!-- repfl-plugin: $METHODS -->"
issues="repos/$GITHUB_REPOSITORY/issues"
{
  echo "$MARK"
  cat "$PAGE"
} | head -c 60000 > "$PAGE.body" # a comment holds 65,536 characters

earlier=$(gh api --paginate "$issues/$NUMBER/comments" \
  --jq '.[] | select(.body | startswith(env.MARK)) | .id' | head -n 1)
if [ -n "$earlier" ]; then
  gh api --silent --method PATCH "$issues/comments/$earlier" --field body=@"$PAGE.body"
else
  gh api --silent "$issues/$NUMBER/comments" --field body=@"$PAGE.body"
fi || echo "::notice::no permission to comment; the table is in the summary of this job"
