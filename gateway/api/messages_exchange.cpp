#include "gateway/api/messages_exchange.hpp"

#include <limits>
#include <memory>

#include "gateway/api/error_body.hpp"
#include "gateway/dialects/error_shapes.hpp"
#include "gateway/dialects/to_messages_reply.hpp"
#include "gateway/dialects/to_messages_stream.hpp"

namespace weir::gateway::api {

namespace {

constexpr int k_statuses_begin = 200;
constexpr int k_errors_begin = 300;

class to_messages final : public upstream::reply_translator {
 public:
  explicit to_messages(dialects::messages_stream::options wanted) : stream_(std::move(wanted)) {}

  result<std::string> whole(std::string body) override { return body; }
  void push(std::string_view event, std::string& out) override { stream_.push(event, out); }
  void end(std::string& out) override { stream_.end(out); }
  std::optional<upstream::said_error> failure(int, const std::string&) override { return std::nullopt; }

 private:
  dialects::messages_stream stream_;
};

std::string error_event(const error& e) {
  return dialects::messages_error_event(dialects::to_messages_error(e, {}));
}

}  // namespace

http::reply messages_error_reply(const error& e, std::string_view request_id) {
  auto reply = error_reply(e);
  auto said = dialects::to_messages_error(e, request_id);
  reply.status = said.status;
  reply.body = std::move(said.body);
  reply.headers.emplace_back("request-id", request_id);
  return reply;
}

task<result<void>> messages_exchange::send(http::reply r) {
  const auto id = request_id();
  r.headers.emplace_back("request-id", id);
  if (r.status < k_statuses_begin || r.status >= k_errors_begin) {
    auto said = dialects::to_messages_error(r.status, r.body, id);
    r.status = said.status;
    r.body = std::move(said.body);
    r.content_type = "application/json";
    return outer_.send(std::move(r));
  }
  if (said_as_asked_) return outer_.send(std::move(r));
  auto said = dialects::to_messages_reply(r.body, {.id = "msg_" + std::string(id), .model = model_});
  if (!said) {
    probe_.set_outcome(info(said.error().code).code);
    return outer_.send(messages_error_reply(said.error(), id));
  }
  r.body = std::move(said->body);
  return outer_.send(std::move(r));
}

result<void> messages_exchange::start_stream(int status, std::string_view content_type,
                                             http::header_list headers) {
  const std::string id(request_id());
  headers.emplace_back("request-id", id);
  if (said_as_asked_) return outer_.start_stream(status, content_type, std::move(headers));
  dialects::messages_stream::options wanted{.identity = {.id = "msg_" + id, .model = model_},
                                            .request_id = id};
  // The relay bounds events already.
  stream_.emplace(std::make_unique<to_messages>(std::move(wanted)), std::numeric_limits<std::size_t>::max());
  return outer_.start_stream(status, content_type, std::move(headers));
}

std::optional<result<void>> messages_exchange::write_now(std::string_view bytes) {
  if (!stream_) return outer_.write_now(bytes);
  const auto said = stream_->push(bytes);
  if (!said || said->empty()) return result<void>{};
  return outer_.write_now(*said);
}

task<result<void>> messages_exchange::finish(std::string_view last_bytes) {
  if (!stream_) return outer_.finish(last_bytes);
  last_ = stream_->push(last_bytes).value_or(std::string_view());
  last_ += stream_->end();
  return outer_.finish(last_);
}

task<result<void>> messages_exchange::write_error(last_words, const error& why) {
  return outer_.write_error(&error_event, why);
}

void messages_exchange::on_cut(last_words) noexcept {
  outer_.on_cut(&error_event);
}

}  // namespace weir::gateway::api
