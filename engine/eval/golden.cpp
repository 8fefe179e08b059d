#include "engine/eval/golden.hpp"

#include <string>
#include <string_view>
#include <utility>

#include <simdjson.h>

#include "engine/model/mapped_file.hpp"

namespace weir::engine::eval {

namespace dom = simdjson::dom;

namespace {

// Reads the lists of one case; the first fault is kept.
class case_reader final {
 public:
  case_reader(dom::object object, std::size_t index) : object_(object), index_(index) {}

  // `expected` entries when the key is there at all.
  std::vector<double> numbers(std::string_view key, std::size_t expected) {
    std::vector<double> out;
    for (const dom::element item : list(key)) {
      double value = 0.0;
      if (item.get(value) != simdjson::SUCCESS) reject(key, "must hold numbers");
      out.push_back(value);
    }
    if (!out.empty() && out.size() != expected) {
      reject(key, "has " + std::to_string(out.size()) + " entries, expected " + std::to_string(expected));
    }
    return out;
  }

  std::vector<std::int32_t> tokens(std::string_view key, std::int32_t vocab_size) {
    std::vector<std::int32_t> out;
    for (const dom::element item : list(key)) {
      std::int64_t value = 0;
      if (item.get(value) != simdjson::SUCCESS || value < 0 || value >= vocab_size) {
        reject(key, "must hold token ids of the vocabulary");
      }
      out.push_back(static_cast<std::int32_t>(value));
    }
    return out;
  }

  void reject(std::string_view key, const std::string& what) {
    if (fault_.empty()) fault_ = "case " + std::to_string(index_) + ": \"" + std::string(key) + "\" " + what;
  }
  const std::string& fault() const noexcept { return fault_; }

 private:
  std::vector<dom::element> list(std::string_view key) {
    dom::element value;
    dom::array items;
    if (object_.at_key(key).get(value) != simdjson::SUCCESS) return {};
    if (value.get(items) != simdjson::SUCCESS) {
      reject(key, "must be a list");
      return {};
    }
    return {items.begin(), items.end()};
  }

  dom::object object_;
  std::size_t index_;
  std::string fault_;
};

golden_case read_case(case_reader& reader, const model::model_config& model) {
  golden_case out;
  out.prompt = reader.tokens("prompt", model.vocab_size);
  if (out.prompt.empty()) reader.reject("prompt", "must not be empty");
  out.logits = reader.numbers("logits", static_cast<std::size_t>(model.vocab_size));
  out.argmax = reader.tokens("argmax", model.vocab_size);
  if (!out.argmax.empty() && out.argmax.size() != out.prompt.size())
    reader.reject("argmax", "must be as long as the prompt");
  out.next_logprob = reader.numbers("next_logprob", out.prompt.empty() ? 0 : out.prompt.size() - 1);
  out.kda_state = reader.numbers("kda_state", static_cast<std::size_t>(model.count(model::layer_kind::kda)));
  out.greedy = reader.tokens("greedy", model.vocab_size);
  out.greedy_margin = reader.numbers("greedy_margin", out.greedy.size());
  return out;
}

}  // namespace

result<std::vector<golden_case>> read_golden(const std::filesystem::path& path,
                                             const model::model_config& model) {
  const auto text = model::read_file(path, k_golden_bytes_max);
  if (!text) return std::unexpected(text.error());
  dom::parser parser;
  dom::object root;
  if (parser.parse(*text).get(root) != simdjson::SUCCESS) {
    return fail(errc::bad_model, path.string() + " is not a JSON object");
  }
  dom::array cases;
  if (root.at_key("cases").get(cases) != simdjson::SUCCESS || cases.size() == 0) {
    return fail(errc::bad_model, path.string() + ": \"cases\" is not a list of cases");
  }
  std::vector<golden_case> out;
  for (const dom::element item : cases) {
    dom::object object;
    if (out.size() == k_cases_max || item.get(object) != simdjson::SUCCESS) {
      return fail(errc::bad_model,
                  path.string() + ": case " + std::to_string(out.size()) + " is not an object, or too many");
    }
    case_reader reader(object, out.size());
    golden_case one = read_case(reader, model);
    if (one.prompt.size() + one.greedy.size() > k_case_tokens_max) reader.reject("prompt", "is too long");
    if (!reader.fault().empty()) return fail(errc::bad_model, path.string() + ": " + reader.fault());
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace weir::engine::eval
