#!/usr/bin/env bash
# What copies to a shadow target add to a client's times, with a target that answers, hangs, is slow, fails or gets ten times what it
# takes: make bench-shadow. Usage: shadow.sh [BUILD_DIR [REQUESTS [ROUNDS]]]; rounds with and without copies in turn, at a rate that
# leaves the machine idle most of the time. Prints the median over the rounds of the 99th percentile of the whole request.
set -euo pipefail

build=$(realpath "${1:-build/release}")
requests=${2:-1000}
rounds=${3:-7}
rate=100
dir=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

announced() { # NAME: the address that it printed when it was ready
  for _ in $(seq 200); do
    local url
    url=$(sed -n 's/^listening on \(\S*\)$/\1/p' "$dir/$1.out" | head -n 1)
    [ -n "$url" ] && { echo "$url"; return; }
    sleep 0.05
  done
  cat "$dir/$1.err" >&2
  return 1
}

start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" >"$dir/$name.out" 2>"$dir/$name.err" &
  pids+=($!)
}

key_of() { # NAME: makes a key, prints its line of the configuration
  "$build/weir" keys new --secret-file "$dir/secret" --name "$1" >"$dir/$1.key" 2>/dev/null
  echo "    - {name: $1, tenant: t, digest: $(sed -n 's/.*digest: //p' "$dir/$1.key"), shadow: $2}"
}

p99() { # KEY SEED
  "$build/weir-loadtest" run --url "$weir" --model mock --api-key "$(head -n 1 "$dir/$1.key")" --rate "$rate" \
    --requests "$requests" --max-tokens 16 --seed "$2" --json | sed -n 's/.*"p99_e2el_ms": *\([0-9.]*\).*/\1/p'
}

median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

start primary "$build/weir-loadtest" mock --listen 127.0.0.1:0 --ttft-ms 10 --itl-ms 1
primary=$(announced primary)
keys="$(key_of on true)
$(key_of off false)"
printf '%-28s %12s %12s %10s %8s\n' "shadow target" "without, ms" "with, ms" "change" "sent"
while IFS='|' read -r name in_flight flags; do
  # shellcheck disable=SC2086
  start "shadow-$name" "$build/weir-loadtest" mock --listen 127.0.0.1:0 $flags
  shadow=$(announced "shadow-$name")
  cat >"$dir/weir.yaml" <<YAML
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
log: {access: false}
failover: {failures: 1000}
auth:
  secret_file: $dir/secret
  ledger_dir: $dir/ledger-$name
  keys:
$keys
targets:
  - {name: primary, http: {base_url: "$primary/v1"}}
  - {name: shadow, http: {base_url: "$shadow/v1"}}
models: [{name: mock, targets: [primary]}]
shadow:
  copies: [{model: mock, target: shadow, share: 1, requests_per_s: 1000, in_flight: $in_flight, timeout_ms: 2000}]
YAML
  start "weir-$name" "$build/weir" serve --config "$dir/weir.yaml"
  weir_pid=$!
  weir=$(announced "weir-$name")
  p99 on 0 >/dev/null
  : >"$dir/on"
  : >"$dir/off"
  for round in $(seq "$rounds"); do
    for key in on off; do p99 "$key" "$round" >>"$dir/$key"; done
  done
  admin=$(sed -n 's/^admin on \(\S*\)$/\1/p' "$dir/weir-$name.out")
  sent=$(curl -s "$admin/metrics" | sed -n 's/^weir_shadow_sent_total.* \(\S*\)$/\1/p')
  off=$(median <"$dir/off")
  on=$(median <"$dir/on")
  printf '%-28s %12.2f %12.2f %9.1f%% %8s\n' "$name" "$off" "$on" "$(awk -v a="$off" -v b="$on" 'BEGIN {print (b - a) / a * 100}')" "$sent"
  kill "$weir_pid"
  wait "$weir_pid" 2>/dev/null || true
done <<'CASES'
answers|16|--ttft-ms 10 --itl-ms 1
hangs|16|--ttft-ms 600000
slow|16|--ttft-ms 10 --itl-ms 100
fails|16|--fault status-500
ten-times-its-load|2|--ttft-ms 150 --itl-ms 1
CASES
