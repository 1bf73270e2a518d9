#!/usr/bin/env bash
# Runs each fuzz target of fuzz/ for SECONDS (60), or only the one that TARGET names. Installs cargo-fuzz if it is missing.
# An input that fails is kept in fuzz/artifacts; fix the cause and move it to fuzz/crashes/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.13.1
tools="${XDG_CACHE_HOME:-$HOME/.cache}/flux-resourceset/cargo-fuzz-$version"
seconds=${FUZZ_SECONDS:-60}

if [ ! -x "$tools/bin/cargo-fuzz" ]; then
  echo "installing cargo-fuzz $version (a minute, once)" >&2
  cargo install --quiet --locked --root "$tools" "cargo-fuzz@$version"
fi
export PATH="$tools/bin:$PATH"

# Instrumentation needs a nightly compiler, or a stable one with RUSTC_BOOTSTRAP=1.
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
  cargo=(cargo +nightly)
else
  cargo=(cargo)
  export RUSTC_BOOTSTRAP=1
fi

if [ -n "${TARGET:-}" ]; then
  targets=("$TARGET")
else
  mapfile -t targets < <(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -vx fuzz)
fi

# Without the address sanitizer: our code has no unsafe blocks, and targets run several times as fast.
"${cargo[@]}" fuzz build --sanitizer none --target-dir target/fuzz
status=0
for target in "${targets[@]}"; do
  # Inputs that the fuzzer finds stay out of Git; only the seeds are committed.
  found="target/fuzz/corpus/$target"
  mkdir -p "$found"
  echo "== $target, $seconds s"
  "${cargo[@]}" fuzz run --sanitizer none --target-dir target/fuzz "$target" "$found" "fuzz/corpus/$target" -- \
    -max_total_time="$seconds" -dict=fuzz/words.dict -timeout=10 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
    2>&1 | tee "target/fuzz/$target.log" | grep -E '^(stat::|SUMMARY|thread|Done)|panicked|ERROR' || true
  if ! grep -q '^Done ' "target/fuzz/$target.log"; then
    echo "$target failed: see target/fuzz/$target.log and fuzz/artifacts/$target" >&2
    status=1
  fi
done
exit "$status"
