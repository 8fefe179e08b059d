// A loaded Kimi-Linear model as llama.cpp's architecture "kimi-linear" wants it: names, orders and transforms
// are those of its conversion script. Vocabulary entries are names of token ids, as prompts are given as ids.
// Blocks; any thread.
#pragma once

#include "engine/result.hpp"
#include "engine/runner/model_runner.hpp"
#include "tests/gguf/gguf_file.hpp"

namespace weir::tests::gguf {

enum class precision : std::uint8_t {
  stored,   // matrices keep the type that they have
  widened,  // all in float32, the same values
};

// The model's weights must outlive the file. errc::unsupported names what that architecture does not have.
engine::result<file> kimi_linear_file(const engine::runner::loaded_model& model, precision how);

}  // namespace weir::tests::gguf
