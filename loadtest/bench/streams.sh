#!/usr/bin/env bash
# Many slow streams through Weir at once, beside the same load at the mock directly: make bench-streams.
# Usage: streams.sh [BUILD_DIR [STREAMS [TOKENS]]]; each stream sends one token a second. Reports lost and reordered tokens, what
# Weir adds to the 99th percentile of the gaps, and its memory per stream. Ends with 1 where a token is missing.
set -euo pipefail

build=$(realpath "${1:-build/release}")
streams=${2:-9000}
tokens=${3:-60}
dir=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
ulimit -n "$(ulimit -Hn)"

# announced NAME: the address that NAME printed when it was ready.
announced() {
  for _ in $(seq 200); do
    local url
    url=$(sed -n 's/^listening on \(\S*\)$/\1/p' "$dir/$1.out" | head -n 1)
    [ -n "$url" ] && { echo "$url"; return; }
    sleep 0.05
  done
  cat "$dir/$1.err" >&2
  return 1
}

resident_kb() { awk '/VmRSS/ {print $2}' "/proc/$1/status"; }
field() { sed -n "s/.*\"$2\": *\([-0-9.]*\).*/\1/p" "$dir/$1.json" | head -n 1; }

load() { # NAME URL
  "$build/weir-loadtest" run --url "$2" --model mock --concurrency "$streams" --requests "$streams" \
    --max-tokens "$tokens" --ramp-s 10 --check-sequence --json >"$dir/$1.json"
}

"$build/weir-loadtest" mock --listen 127.0.0.1:0 --itl-ms 1000 >"$dir/mock.out" 2>"$dir/mock.err" &
pids+=($!)
mock=$(announced mock)
cat >"$dir/weir.yaml" <<YAML
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
auth: {loopback_open: true}
log: {access: false}
targets: [{name: mock, http: {base_url: "$mock/v1", connections: 100000}}]
models: [{name: mock, targets: [mock]}]
YAML
"$build/weir" serve --config "$dir/weir.yaml" >"$dir/weir.out" 2>"$dir/weir.err" &
weir_pid=$!
pids+=("$weir_pid")
weir=$(announced weir)

echo "$streams streams of $tokens tokens, one a second: directly, then through weir"
load direct "$mock" || true
before_kb=$(resident_kb "$weir_pid")
(sleep $((10 + tokens / 2)); resident_kb "$weir_pid" >"$dir/peak") &
failed=0
load weir "$weir" || failed=1
wait %% 2>/dev/null || true
peak_kb=$(cat "$dir/peak")
for name in direct weir; do
  echo "$name: completed $(field $name completed), failed $(field $name failed), lost $(field $name tokens_lost)," \
    "reordered $(field $name tokens_reordered), gap p50 $(field $name median_itl_ms) ms, p99 $(field $name p99_itl_ms) ms"
done
awk -v a="$(field direct p99_itl_ms)" -v b="$(field weir p99_itl_ms)" -v p="$peak_kb" -v q="$before_kb" -v n="$streams" \
  'BEGIN { printf "added p99 %.1f ms; weir %.1f MiB at %d streams, %.1f KiB each\n", b - a, p / 1024, n, (p - q) / n }'
exit "$failed"
