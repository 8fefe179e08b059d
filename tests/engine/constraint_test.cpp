// The engine under constraints, with the bundled model: what it generates satisfies them, and ends as it
// should.
#include "engine/constraint.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/structure/answer_constraint.hpp"
#include "engine/structure/json_tree.hpp"
#include "engine/text/chat_format.hpp"

namespace {

using namespace weir::engine;

const std::filesystem::path k_model = std::filesystem::path(WEIR_SOURCE_DIR) / "configs/models/weir-tiny";
constexpr auto k_patience = std::chrono::seconds(60);  // a hang fails the test instead of stopping the run

class collector final : public event_sink {
 public:
  explicit collector(std::shared_ptr<const text::tokenizer> tok) : tok_(std::move(tok)) {}
  void on_token(const token_event& event) noexcept override {
    text_ += tok_->token_bytes(event.token);
    ++count_;
  }
  void on_finished(finish_reason reason) noexcept override { done_.set_value(reason); }

  finish_reason wait() {
    auto done = done_.get_future();
    REQUIRE(done.wait_for(k_patience) == std::future_status::ready);
    return done.get();
  }
  const std::string& text() const { return text_; }
  int count() const { return count_; }

 private:
  std::shared_ptr<const text::tokenizer> tok_;
  std::string text_;
  int count_ = 0;
  std::promise<finish_reason> done_;
};

struct parts {
  std::shared_ptr<const text::tokenizer> tok = *text::tokenizer::load(k_model);
  std::shared_ptr<const text::chat_format> chat = *text::chat_format::detect(tok);
  std::shared_ptr<const structure::vocabulary> words = *structure::vocabulary::build(tok);
  std::unique_ptr<engine> under_test = *engine::open({.model_dir = k_model, .compute_threads = 1});

  std::shared_ptr<const token_constraint> schema(const std::string& json) const {
    auto made =
        structure::compile_answer({.text = structure::text_form::json_schema, .schema_json = json}, nullptr);
    REQUIRE(made);
    return structure::make_constraint(std::move(*made), words);
  }

  std::shared_ptr<collector> submit(const std::string& question, generate_request request) const {
    text::chat_prompt prompt;
    prompt.messages.push_back({.role = "user", .content = question});
    request.prompt = *chat->render(prompt);
    request.stop_tokens = chat->stop_tokens();
    auto sink = std::make_shared<collector>(tok);
    REQUIRE(under_test->submit(std::move(request), sink));
    return sink;
  }
};

const std::string k_person =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"n":{"type":"integer",)"
    R"("minimum":1,"maximum":99},"kind":{"enum":["cat","dog"]}},"required":["name","n","kind"],)"
    R"("additionalProperties":false})";

// A constraint that breaks after some tokens.
class broken final : public token_constraint {
 public:
  struct matcher final : token_matcher {
    std::shared_ptr<const token_mask> allowed() override {
      if (++asked > 3) return nullptr;
      return std::make_shared<token_mask>(64, ~std::uint64_t{0});
    }
    bool accept(std::int32_t) override { return true; }
    bool is_complete() const noexcept override { return false; }
    bool must_end() const noexcept override { return false; }
    int asked = 0;
  };
  std::unique_ptr<token_matcher> start() const override { return std::make_unique<matcher>(); }
};

}  // namespace

TEST_CASE("answers satisfy their schema whatever is asked and drawn", "[engine]") {
  const parts p;
  const auto person = p.schema(k_person);
  std::vector<std::shared_ptr<collector>> sinks;
  for (int i = 0; i < 24; ++i) {
    generate_request request{.max_new_tokens = 200, .constraint = person};
    request.sampling.temperature = static_cast<float>(i % 4) * 0.6F;
    request.sampling.seed = static_cast<std::uint64_t>(i / 4);
    sinks.push_back(p.submit("What is the capital of Kenya?", std::move(request)));
  }
  for (const auto& sink : sinks) {
    CHECK(sink->wait() == finish_reason::stop);
    INFO(sink->text());
    const auto tree = structure::json_tree::parse(sink->text());
    REQUIRE(tree);
    CHECK((*tree)[tree->root()].keys == std::vector<std::string>{"name", "n", "kind"});
    CHECK(tree->find(tree->root(), "n") != structure::k_no_value);
  }
  // Greedy ones, and those of one seed, are alike.
  CHECK(sinks[0]->text() == sinks[4]->text());
  generate_request again{.max_new_tokens = 200, .constraint = person};
  again.sampling.temperature = 1.8F;
  again.sampling.seed = 2;
  const auto repeated = p.submit("What is the capital of Kenya?", std::move(again));
  CHECK(repeated->wait() == finish_reason::stop);
  CHECK(repeated->text() == sinks[11]->text());
}

TEST_CASE("ends: by the grammar, by a stop token where it is complete, by length", "[engine]") {
  const parts p;
  // Nothing may follow: no stop token is needed.
  auto sink = p.submit("ping", {.max_new_tokens = 50, .constraint = p.schema(R"({"const":"pong"})")});
  CHECK(sink->wait() == finish_reason::stop);
  CHECK(sink->text() == R"("pong")");
  // More digits may follow; the model may stop.
  generate_request number{.max_new_tokens = 50, .constraint = p.schema(R"({"type":"integer"})")};
  sink = p.submit("ping", std::move(number));
  CHECK(sink->wait() == finish_reason::stop);
  CHECK(structure::json_tree::parse(sink->text()));
  // Cut by length: the beginning of what would be allowed.
  sink = p.submit("ping", {.max_new_tokens = 4, .constraint = p.schema(k_person)});
  CHECK(sink->wait() == finish_reason::length);
  CHECK(sink->count() == 4);
  CHECK(sink->text().starts_with("{"));
}

TEST_CASE("a constraint that breaks ends its own sequence alone", "[engine]") {
  const parts p;
  const auto lost = p.submit("ping", {.max_new_tokens = 50, .constraint = std::make_shared<broken>()});
  const auto fine = p.submit("ping", {.max_new_tokens = 50, .constraint = p.schema(R"({"const":[1,2,3]})")});
  CHECK(lost->wait() == finish_reason::failed);
  CHECK(lost->count() == 3);
  CHECK(fine->wait() == finish_reason::stop);
  CHECK(fine->text() == "[1,2,3]");
  CHECK(p.under_test->stats().running == 0);
}
