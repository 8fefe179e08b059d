#!/usr/bin/env bash
# Checks and times the CUDA backend on this machine's GPU. Usage: tests/gpu/run.sh [BUILD]
# BUILD (default build/cuda) is made with the preset `cuda` where it has no test programs yet, or where `pack.sh` made it elsewhere, used as it is.
# Prints what was checked, then kernel, shape, time and share of the bound. Exit code 0: all good, 77: no GPU. Takes some five minutes.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/cuda}
if [ ! -x "$build/weir_gpu_kernels" ]; then
  cmake --preset cuda && cmake --build "$build" -j "$(nproc)" --target gpu_tests || exit 1
fi
# CUDA's libraries may be a toolkit's or a Python package's.
python_libs=$(python3 -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/*/lib")))' 2>/dev/null)
export LD_LIBRARY_PATH="$PWD/$build/lib:${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64:$python_libs"
failed=0
step() {
  local name=$1 code
  shift
  echo "== $name"
  "$@"
  code=$?
  [ $code -eq 77 ] && exit 77
  if [ $code -ne 0 ]; then echo "== $name FAILED ($code)"; failed=1; fi
}
step "every kernel against the scalar reference" timeout 150 "$build/weir_gpu_kernels" --durations no
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    step "compute-sanitizer $tool, a small model" timeout 90 compute-sanitizer --tool $tool --error-exitcode 3 --print-limit 10 \
      "$build/weir_gpu_engine" . --golden weir-tiny
  done
else
  echo "SKIP: no compute-sanitizer"
fi
step "golden values, memory, Kimi-Linear-48B" timeout 150 "$build/weir_gpu_engine" .
step "kernels beside their bounds" timeout 120 "$build/weir_gpu_times"
if python3 -c 'import fla.ops.kda' 2>/dev/null; then
  step "flash-linear-attention's chunk_kda on this GPU" timeout 60 python3 tests/gpu/chunk_kda.py
else
  echo "SKIP: flash-linear-attention is not installed"
fi
exit $failed
