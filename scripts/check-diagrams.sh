#!/usr/bin/env bash
# Opens every page of the built book that has a diagram in headless Chromium, without a network, and counts the drawn diagrams.
# Needs the book (make docs). Installs Chromium if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v chromium-browser || command -v google-chrome || scripts/debian.sh chromium
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
[ -f target/book/index.html ] || { echo "target/book is missing: make docs" >&2; exit 1; }
# A separate network namespace without any connection, if that is permitted.
alone=()
unshare --net true 2>/dev/null && alone=(unshare --net)
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
failed=0
for page in target/book/*.html; do
  name=$(basename "$page")
  # print.html has all pages, index.html is the first page again.
  [ "$name" = print.html ] || [ "$name" = index.html ] && continue
  wanted=$(grep -c '<pre class="mermaid">' "$page" || true)
  [ "$wanted" = 0 ] && continue
  dom=$("${alone[@]}" "$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --user-data-dir="$profile" --virtual-time-budget=20000 --dump-dom \
    "file://$PWD/$page" 2>/dev/null)
  drawn=$(grep -oE '<svg [^>]*id="mermaid-[^>]*' <<<"$dom" | grep -vc 'aria-roledescription="error"' || true)
  echo "$name: $drawn of $wanted diagrams"
  [ "$drawn" = "$wanted" ] || failed=1
  # Mermaid reads a label such as "1. first" as a Markdown list, which it cannot draw.
  if grep -q 'Unsupported markdown' <<<"$dom"; then
    echo "$name: a label that cannot be drawn" >&2
    failed=1
  fi
done
exit "$failed"
