#!/usr/bin/env bash
# Weir's relay beside nginx and haproxy in front of the same mock, in one run: make bench-relay.
# Usage: relay.sh [BUILD_DIR [bench options ...]]. Proxies run on core 0, the mock and the load on core 1 where there are two.
# Everything lives in a temporary folder on free ports and ends with the script.
set -euo pipefail

build=$(realpath "${1:-build/release}")
[ $# -gt 0 ] && shift
dir=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

for program in "$build/weir" "$build/weir-loadtest"; do
  [ -x "$program" ] || { echo "bench-relay: $program is not built" >&2; exit 2; }
done
# Debian keeps these two outside of a user's path.
PATH=$PATH:/usr/sbin:/sbin
for program in nginx haproxy; do
  command -v "$program" >/dev/null || { echo "bench-relay: $program is not installed; .ci/setup bench" >&2; exit 2; }
done

near=() far=()
if [ "$(nproc)" -ge 2 ] && command -v taskset >/dev/null; then
  near=(taskset -c 0) far=(taskset -c 1)
fi
ulimit -n "$(ulimit -Hn)"

# start NAME COMMAND...: runs it, its output in NAME.out; its process id is in $started.
start() {
  local name=$1
  shift
  "$@" >"$dir/$name.out" 2>"$dir/$name.err" &
  started=$!
  pids+=("$started")
}

# announced NAME: the address that NAME printed as its first line.
announced() {
  local url=
  for _ in $(seq 200); do
    url=$(sed -n 's/^listening on \(\S*\)$/\1/p' "$dir/$1.out" | head -n 1)
    [ -n "$url" ] && { echo "$url"; return; }
    sleep 0.05
  done
  cat "$dir/$1.out" "$dir/$1.err" >&2
  echo "bench-relay: $1 did not start" >&2
  return 1
}

# answers URL NAME: waits until a whole answer comes through.
answers() {
  for _ in $(seq 200); do
    if (exec 3<>"/dev/tcp/127.0.0.1/${1##*:}") 2>/dev/null; then return; fi
    sleep 0.05
  done
  cat "$dir/$2.out" "$dir/$2.err" >&2
  echo "bench-relay: $2 does not listen" >&2
  return 1
}

# For programs that cannot take a free port by themselves: one that nobody listens on now.
free_port() {
  local port
  for _ in $(seq 100); do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
  return 1
}

start mock "${far[@]}" "$build/weir-loadtest" mock --burst 64
mock=$(announced mock)
start paced "${far[@]}" "$build/weir-loadtest" mock --itl-ms 20 --ttft-ms 20
paced=$(announced paced)

# nginx NAME UPSTREAM
start_nginx() {
  port=$(free_port)
  mkdir -p "$dir/$1"
  cat >"$dir/$1/nginx.conf" <<EOF
worker_processes 1;
worker_rlimit_nofile $(ulimit -n);
daemon off;
pid $dir/$1/pid;
error_log $dir/$1/error.log;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path $dir/$1/body; proxy_temp_path $dir/$1/proxy; fastcgi_temp_path $dir/$1/fastcgi;
  uwsgi_temp_path $dir/$1/uwsgi; scgi_temp_path $dir/$1/scgi;
  client_max_body_size 0;
  client_body_buffer_size 8m;
  keepalive_requests 1000000000;
  tcp_nodelay on;
  upstream mock { server ${2#http://}; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:$port;
    location / {
      proxy_pass http://mock;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
EOF
  start "$1" "${near[@]}" nginx -p "$dir/$1" -e "$dir/$1/error.log" -c "$dir/$1/nginx.conf"
  answers "http://127.0.0.1:$port" "$1"
}

# haproxy NAME UPSTREAM
start_haproxy() {
  port=$(free_port)
  cat >"$dir/$1.cfg" <<EOF
global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  option http-keep-alive
  option http-no-delay
  http-reuse always
listen relay
  bind 127.0.0.1:$port
  server mock ${2#http://}
EOF
  start "$1" "${near[@]}" haproxy -db -f "$dir/$1.cfg"
  answers "http://127.0.0.1:$port" "$1"
}

# weir NAME UPSTREAM
start_weir() {
  cat >"$dir/$1.yaml" <<EOF
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
io_threads: 1
auth: {loopback_open: true}
log: {access: false}
targets: [{name: mock, http: {base_url: "$2/v1"}}]
models: [{name: mock, targets: [mock]}]
EOF
  start "$1" "${near[@]}" "$build/weir" serve --config "$dir/$1.yaml"
}

# weir with all that a request may cost: keys, rates, a budget whose reservations are synced, prompts tokenized and
# looked up, an index on disk. One state folder and one key, made here.
"$build/weir" keys new --secret-file "$dir/secret" --name bench >"$dir/key.txt" 2>/dev/null
key=$(head -n 1 "$dir/key.txt")
digest=$(sed -n 's/^ *digest: //p' "$dir/key.txt" | head -n 1)
start_full_weir() {
  cat >"$dir/$1.yaml" <<EOF
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
io_threads: 1
log: {access: false}
auth:
  secret_file: $dir/secret
  ledger_dir: $dir/$1-ledger
  keys:
    - name: bench
      tenant: bench
      digest: $digest
      limits: {requests_per_min: 1000000000, tokens_per_min: 1000000000, concurrent: 100000, usd_per_day: 1000000000}
routing: {state_dir: $dir/$1-state}
targets:
  - name: mock
    http: {base_url: "$2/v1"}
    cache: {checkpoint_tokens: 16253, capacity_tokens: 2560000}
    price: {fresh_usd_per_mtok: 0.6, cached_usd_per_mtok: 0.1, output_usd_per_mtok: 2.5}
models: [{name: mock, targets: [mock], tokenizer: $(realpath "$(dirname "$0")/../../configs/models/weir-tiny")}]
EOF
  start "$1" "${near[@]}" "$build/weir" serve --config "$dir/$1.yaml"
}

start_nginx nginx "$mock"
targets=(--target "nginx=http://127.0.0.1:$port,$started")
start_haproxy haproxy "$mock"
targets+=(--target "haproxy=http://127.0.0.1:$port,$started")
start_weir weir "$mock"
targets+=(--target "weir=$(announced weir),$started")
start_full_weir weir-full "$mock"
targets+=(--target "weir-full=$(announced weir-full),$started")

start_nginx nginx-paced "$paced"
targets+=(--paced-target "nginx=http://127.0.0.1:$port,$started")
start_haproxy haproxy-paced "$paced"
targets+=(--paced-target "haproxy=http://127.0.0.1:$port,$started")
start_weir weir-paced "$paced"
targets+=(--paced-target "weir=$(announced weir-paced),$started")

"${far[@]}" "$build/weir-loadtest" bench --direct "$mock" --paced-direct "$paced" --api-key "$key" "${targets[@]}" "$@"
