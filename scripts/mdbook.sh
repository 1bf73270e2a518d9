#!/usr/bin/env bash
# Builds the book (docs/) into target/book. Installs mdBook and its preprocessor for diagrams if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
mdbook=0.5.4
mermaid=0.17.1
tools="${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/mdbook-$mdbook-$mermaid"

install() { # crate, version, further arguments
  local crate=$1 version=$2
  shift 2
  [ -x "$tools/bin/$crate" ] && return
  echo "installing $crate $version (a few minutes, once)" >&2
  cargo install --quiet --locked --root "$tools" "$crate@$version" "$@"
}
# Without the file watcher and the web server, which a build does not need.
install mdbook "$mdbook" --no-default-features --features search
install mdbook-mermaid "$mermaid"
export PATH="$tools/bin:$PATH"

# The preprocessor contains the library that draws the diagrams; the library is not kept in Git.
mkdir -p target/mermaid/src
printf '[book]\ntitle = "x"\n' > target/mermaid/book.toml
mdbook-mermaid install target/mermaid 2>/dev/null
cp target/mermaid/mermaid.min.js docs/mermaid.min.js

rm -rf target/book
mdbook build docs --dest-dir "$PWD/target/book"

# The book must be readable without a network, so it may load nothing from another host.
if grep -rnoE '<(script|img|iframe|source)[^>]+src="(https?:)?//[^"]*"|<link[^>]+rel="(stylesheet|icon|preload)"[^>]+href="(https?:)?//[^"]*"|(@import|url\()[ "'\'']*(https?:)?//[^)]*' \
  --include='*.html' --include='*.css' target/book; then
  echo "the book loads something from another host (above)" >&2
  exit 1
fi
echo "target/book/index.html" >&2
