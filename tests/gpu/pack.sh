#!/usr/bin/env bash
# The GPU's test programs with the libraries that another machine may lack, in one folder. Usage: tests/gpu/pack.sh [BUILD] [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/cuda}
folder=${2:-build/gpu-pack}
mkdir -p "$folder/lib"
for program in weir_gpu_kernels weir_gpu_times weir_gpu_engine; do
  strip -o "$folder/$program" "$build/$program"
  ldd "$build/$program" | awk '/=> \// {print $3}' | grep -E '/lib(hwy|simdjson|stdc\+\+|gcc_s)\.so' | xargs -I{} cp -Lu {} "$folder/lib/"
done
du -sh "$folder"
