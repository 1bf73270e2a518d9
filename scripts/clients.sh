#!/usr/bin/env bash
# clients.sh [LANGUAGE...]: generates clients from the OpenAPI document with openapi-generator, compiles them, and has each make one
# call of each tag to a real server (clients-test/). Languages: go, python, typescript, rust. Installs what is missing. Everything
# it makes is in target/clients.
set -euo pipefail
if [[ -z ${API:-} ]]; then
  exec "$(dirname "$0")/with-server.sh" "$0" "$@"
fi
cd "$(dirname "$0")/.."
version=7.12.0
sum=33e7dfa7a1f04d58405ee12ae19e2c6fc2a91497cf2e56fa68f1875a95cbf220
out=$PWD/target/clients
tests=$PWD/clients-test
languages=("$@")
[[ ${#languages[@]} != 0 ]] || languages=(go python typescript rust)

scripts/debian.sh curl java:default-jre-headless python3 node:nodejs npm
jar=${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/openapi-generator-cli-$version.jar
if [[ ! -f $jar ]]; then
  mkdir -p "$(dirname "$jar")"
  curl --silent --show-error --fail --location --output "$jar.new" \
    "https://repo1.maven.org/maven2/org/openapitools/openapi-generator-cli/$version/openapi-generator-cli-$version.jar"
  echo "$sum  $jar.new" | sha256sum --check --quiet
  mv "$jar.new" "$jar"
fi

# generate GENERATOR LANGUAGE [OPTION...]
generate() {
  rm -rf "${out:?}/$2"
  mkdir -p "$out/$2"
  java -jar "$jar" generate --input-spec openapi/openapi.yaml --generator-name "$1" --output "$out/$2/client" "${@:3}" \
    >"$out/$2/log" 2>&1 || { cat "$out/$2/log" >&2; exit 1; }
}

go_client() {
  scripts/go.sh
  generate go go --additional-properties=packageName=client,withGoMod=false
  rm -rf "$out/go/client/test"
  cp "$tests/go/main.go" "$out/go"
  cd "$out/go"
  printf 'module clients\n\ngo 1.21\n' >go.mod
  go mod tidy >log 2>&1 || { cat log >&2; exit 1; }
  go run .
}

python_client() {
  generate python python --package-name client
  python3 -m venv "$out/python/venv"
  "$out/python/venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$out/python/client/requirements.txt"
  PYTHONPATH=$out/python/client "$out/python/venv/bin/python" "$tests/python/main.py"
}

typescript_client() {
  generate typescript-fetch typescript
  cp "$tests"/typescript/* "$out/typescript"
  cd "$out/typescript"
  npm install --silent --no-audit --no-fund >log 2>&1 || { cat log >&2; exit 1; }
  npx tsc
  node built/main.js
}

rust_client() {
  generate rust rust --package-name client
  # A client of a local server needs no TLS.
  sed -i 's/^reqwest = .*/reqwest = { version = "0.12", default-features = false, features = ["json", "multipart"] }/' \
    "$out/rust/client/Cargo.toml"
  cp -r "$tests"/rust/. "$out/rust"
  CARGO_TARGET_DIR=$out/rust-target cargo run --quiet --manifest-path "$out/rust/Cargo.toml"
}

for language in "${languages[@]}"; do
  echo "$language:"
  ("${language}_client")
done
