// How a request is answered: its route, the stages of a completion, and where faults come in.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "loadtest/mock/connection.hpp"

namespace weir::loadtest::mock {

namespace {

namespace asio = boost::asio;

constexpr std::string_view k_json = "application/json";
constexpr std::size_t k_out_bytes_max = 64 << 10;  // written before the socket is asked to take it
constexpr std::int64_t k_tokens_at_once = 4'096;   // of one stream, then others have their turn
constexpr std::string_view k_extra_bytes = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nextra";
constexpr std::size_t k_short_bytes = 100;  // what a short body lacks

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string model_card(const mock_options& options) {
  return fmt::format(
      R"({{"id":"{0}","object":"model","created":{1},"owned_by":"vllm","root":"{0}","parent":null,)"
      R"("max_model_len":{2}}})",
      options.model, now_s(), options.context);
}

}  // namespace

void connection::begin(const request& asked) {
  owner_.count().requests.add(1);
  exchange_ = std::make_unique<exchange>();
  if (!asked.keep_alive) {
    exchange_->then = last_act::close;
    exchange_->close_field = "connection: close\r\n";
  }
  route(asked);
}

void connection::route(const request& asked) {
  const auto& options = owner_.options();
  const auto path = std::string_view(asked.target).substr(0, asked.target.find('?'));
  const bool get = asked.method == "GET";
  const bool post = asked.method == "POST";
  const bool chat = path == "/v1/chat/completions";
  if (!options.api_key.empty() && path.starts_with("/v1/") &&
      asked.authorization != "Bearer " + options.api_key) {
    answer(401, k_json, R"({"error":"Unauthorized"})");
  } else if (chat || path == "/v1/completions") {
    if (post) return begin_completion(asked, chat);
    answer(405, k_json, R"({"detail":"Method Not Allowed"})", "allow: POST\r\n");
  } else if (path == "/v1/models" && get) {
    answer(200, k_json, fmt::format(R"({{"object":"list","data":[{}]}})", model_card(options)));
  } else if (path == "/v1/models/" + options.model && get) {
    answer(200, k_json, model_card(options));
  } else if (path == "/health" && get) {
    answer(200, k_json, "");
  } else if (is_operator_route(path, asked.method)) {
    operate(path);
  } else if (path == "/metrics" && get) {
    answer(200, "text/plain; version=0.0.4; charset=utf-8", owner_.metrics());
  } else {
    answer(404, k_json, R"({"detail":"Not Found"})");
  }
}

bool connection::is_operator_route(std::string_view path, std::string_view method) const {
  const bool is_sglang = owner_.options().flavor == engine_flavor::sglang;
  if (is_sglang && path == "/v1/loads") return method == "GET";
  return owner_.behind() != nullptr && method == "POST" &&
         path == (is_sglang ? "/flush_cache" : "/reset_prefix_cache");
}

void connection::operate(std::string_view path) {
  if (path == "/v1/loads") return answer(200, k_json, owner_.loads());
  owner_.behind()->clear_cache();
  answer(200, k_json, "");
}

void connection::answer(int status, std::string_view type, std::string_view body,
                        std::string_view extra_fields) {
  append_response(out_, status, type, body, std::string(extra_fields).append(exchange_->close_field));
  exchange_->at = stage::ending;
  advance();
}

void connection::begin_completion(const request& asked, bool chat) {
  const auto& options = owner_.options();
  auto* const behind = owner_.behind();
  auto ask = parse_completion(owner_.parser(), asked.body, chat,
                              {.text = options.echo, .prompt = behind != nullptr});
  if (!ask) return answer(400, k_json, error_body(400, "BadRequestError", ask.error()));
  if (options.strict_model && ask->model != options.model) {
    const auto message = fmt::format("The model `{}` does not exist.", ask->model);
    return answer(404, k_json, error_body(404, "NotFoundError", message, "model"));
  }
  if (behind != nullptr && ask->prompt_tokens > options.context) {
    const auto message = fmt::format(
        "This model's maximum context length is {} tokens. However, your request has {} "
        "input tokens.",
        options.context, ask->prompt_tokens);
    return answer(400, k_json, error_body(400, "BadRequestError", message));
  }
  const auto& wish = asked.fault.empty() ? ask->fault : asked.fault;
  const auto wrong = wish.empty() ? owner_.draw_fault() : find_fault(wish);
  if (!wrong)
    return answer(400, k_json, error_body(400, "BadRequestError", "no mock fault is named " + wish));
  exchange_->wrong = *wrong;
  if (*wrong != fault::none) owner_.count().faults.add(1);
  if (begin_status_fault()) return;
  begin_answer(std::move(*ask));
}

bool connection::begin_status_fault() {
  switch (exchange_->wrong) {
    case fault::status_500:
      answer(500, k_json, error_body(500, "InternalServerError", "mock fault: status 500"));
      return true;
    case fault::status_503:
      answer(503, k_json, error_body(503, "ServiceUnavailableError", "mock fault: status 503"));
      return true;
    case fault::status_429:
      answer(429, k_json, error_body(429, "TooManyRequestsError", "mock fault: status 429"),
             "retry-after: 1\r\n");
      return true;
    default:
      return false;
  }
}

void connection::begin_answer(completion_ask ask) {
  auto& count = owner_.count();
  auto& x = *exchange_;
  prompt asked{std::move(ask.prompt), std::move(ask.cache_salt), std::move(ask.checkpoint_at)};
  x.writer.emplace(std::move(ask), owner_.options(), owner_.answer_number(), now_s());
  count.running.add(1);
  count.tokens_in_use.add(x.writer->ask().prompt_tokens + x.writer->token_count());
  if (x.wrong == fault::keepalive_close) x.then = last_act::close;
  const auto& options = owner_.options();
  const bool stream = x.writer->ask().stream;
  const bool headless = x.wrong == fault::reset_before_head || x.wrong == fault::stall_before_head;
  if (stream && !headless) x.writer->head(x.close_field, out_);
  if (owner_.behind() != nullptr) return enter_queue(std::move(asked));
  count_prompt();
  const auto token_count = static_cast<double>(x.writer->token_count());
  const double wait_ms = options.ttft_ms + (stream ? 0 : options.itl_ms * std::max(token_count - 1, 0.0));
  if (wait_ms > 0) wait_for(wait_ms);
  advance();
}

void connection::count_prompt() {
  auto& count = owner_.count();
  const auto prompt_tokens = exchange_->writer->ask().prompt_tokens;
  count.prompt_tokens.add(prompt_tokens);
  count.cache_queries.add(prompt_tokens);
  count.cache_hits.add(exchange_->writer->cached_tokens());
}

void connection::enter_queue(prompt asked) {
  auto& x = *exchange_;
  x.waiting = true;
  auto& io = owner_.io();
  x.place.emplace(
      owner_.behind()->submit(std::move(asked), [&io, mine = weak_from_this()](const replica::prefill& plan) {
        asio::post(io, [mine, plan] {
          if (const auto self = mine.lock()) self->prefill_started(plan);
        });
      }));
  advance();
}

void connection::prefill_started(const replica::prefill& plan) {
  if (!open_ || !exchange_ || !exchange_->place || exchange_->place->number() != plan.number) return;
  auto& x = *exchange_;
  x.waiting = false;
  x.writer->set_cached_tokens(plan.cached_tokens);
  count_prompt();
  x.due = plan.due;
  wait_for(owner_.options().ttft_ms);
  advance();
}

// True while what follows the prefill takes its time.
bool connection::end_prefill() {
  auto& x = *exchange_;
  x.is_prefilled = true;
  owner_.behind()->prefilled(x.place->number());
  const auto more = x.writer->token_count() - 1;
  if (x.writer->ask().stream || more < 1 || owner_.token_ms() <= 0) return false;
  wait_for(owner_.token_ms() * static_cast<double>(more));
  return true;
}

bool connection::first_token() {
  auto& x = *exchange_;
  if (x.place && !x.is_prefilled && end_prefill()) return true;
  if (x.wrong == fault::reset_before_head) {
    close(last_act::reset);
    return false;
  }
  if (x.wrong == fault::stall_before_head) {
    x.at = stage::stalled;
    return false;
  }
  if (!x.writer->ask().stream) {
    whole_answer();
    return true;
  }
  if (x.wrong == fault::error_event_first) {
    x.writer->error_event(out_);
    x.writer->done(out_);
    x.writer->end(out_);
    x.at = stage::ending;
    return true;
  }
  x.writer->role(out_);
  x.at = stage::tokens;
  return tokens();
}

bool connection::tokens() {
  auto& x = *exchange_;
  const auto& writer = *x.writer;
  const auto half = writer.token_count() / 2;
  const auto first = x.next_token;
  const auto token_ms = owner_.token_ms();
  const bool paced = token_ms > 0;
  for (std::int64_t n = paced ? 1 : owner_.options().burst; n > 0 && x.next_token < writer.token_count();
       --n) {
    if (x.next_token == half && x.wrong != fault::none) {
      if (!out_.empty() && !flush()) return false;
      if (deviate_mid_stream()) return open_ && exchange_ && x.at == stage::ending;
    }
    writer.token(x.next_token++, out_);
    if (out_.size() >= k_out_bytes_max) return true;
  }
  if (x.next_token == writer.token_count()) {
    end_stream();
    return true;
  }
  if (paced) {
    wait_for(token_ms);
  } else if (x.next_token / k_tokens_at_once != first / k_tokens_at_once) {
    yield();
  }
  return true;
}

// Whether the stream takes another course than its tokens.
bool connection::deviate_mid_stream() {
  auto& x = *exchange_;
  switch (x.wrong) {
    case fault::reset_mid_stream:
    case fault::close_mid_stream:
      close(x.wrong == fault::reset_mid_stream ? last_act::reset : last_act::close);
      return true;
    case fault::stall_mid_stream:
      x.at = stage::stalled;
      return true;
    case fault::error_event_mid:
      x.writer->error_event(out_);
      x.writer->done(out_);
      x.writer->end(out_);
      break;
    case fault::half_event_then_close:
      x.writer->half_event(out_);
      x.then = last_act::close;
      break;
    case fault::garbage_event:
      x.writer->garbage_event(out_);
      return false;
    default:
      return false;
  }
  x.at = stage::ending;
  return true;
}

void connection::end_stream() {
  auto& x = *exchange_;
  x.at = stage::ending;
  x.writer->finish(out_);
  x.writer->usage(out_);
  if (x.wrong == fault::short_body) {
    out_ += "64\r\ndata: [DO";
    x.then = last_act::close;
    return;
  }
  if (x.wrong != fault::no_done) x.writer->done(out_);
  x.writer->end(out_);
  if (x.wrong == fault::extra_bytes) out_ += k_extra_bytes;
}

void connection::whole_answer() {
  auto& x = *exchange_;
  x.at = stage::ending;
  const auto body = x.writer->whole();
  const auto start = out_.size();
  append_response(out_, 200, k_json, body, x.close_field);
  const auto half = out_.size() - body.size() / 2;
  switch (x.wrong) {
    case fault::reset_mid_stream:
    case fault::close_mid_stream:
      out_.resize(half);
      x.then = x.wrong == fault::reset_mid_stream ? last_act::reset : last_act::close;
      break;
    case fault::stall_mid_stream:
      out_.resize(half);
      x.at = stage::stalled;
      break;
    case fault::short_body:
      out_.resize(start);
      append_response(out_, 200, k_json, body + std::string(k_short_bytes, ' '), x.close_field);
      out_.resize(out_.size() - k_short_bytes);
      x.then = last_act::close;
      break;
    case fault::extra_bytes:
      out_ += k_extra_bytes;
      break;
    default:
      break;
  }
}

}  // namespace weir::loadtest::mock
