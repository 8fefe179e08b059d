// Follows one request on its way and, where it was chosen to be copied, gathers what its answer is. Begins
// the copy when the client has its answer, or has been told that its target failed: nothing that a client
// waits for waits for a copy. Of a request that is not chosen it costs a comparison per call.
//
// Chosen is a share of requests, by their identifiers, of keys that allow it; never those of keys whose
// requests stay here. One request, one I/O thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "gateway/api/endpoints.hpp"
#include "gateway/shadow/copy.hpp"
#include "gateway/task.hpp"

namespace weir::gateway::shadow {

class watch final {
 public:
  // `prices`: of the model's targets. All but the call outlive it.
  watch(api::request_context& context, const model_entry& entry,
        const std::shared_ptr<const api::generation_call>& call, std::int64_t output_tokens_max,
        const io_executor& executor);
  ~watch();
  watch(const watch&) = delete;
  watch& operator=(const watch&) = delete;

  // A piece of the stream is there, and, when it is on its way to the client, what it was.
  void came() {
    if (job_) came_ = std::chrono::steady_clock::now();
  }
  void passed(std::string_view events) {
    if (job_) gather(events);
  }
  // The whole answer, before it is sent.
  void whole(std::string_view body) {
    if (job_) keep_body(body);
  }

  // The client has it all; or the stream broke on the target's side; or no target answered, and `status` is
  // what the client got. At most one of them, once.
  void answered(const route::attempt& at, const upstream::response& response) {
    if (job_) finish(at, response, policy::comparison::side_end::ok);
  }
  void broke(const route::attempt& at, const upstream::response& response) {
    if (job_) finish(at, response, policy::comparison::side_end::broken);
  }
  void unanswered(const error& why, int status) {
    if (job_) finish_unanswered(why, status);
  }

 private:
  void gather(std::string_view events);
  void keep_body(std::string_view body);
  void finish(const route::attempt& at, const upstream::response& response, policy::comparison::side_end how);
  void finish_unanswered(const error& why, int status);
  void begin();

  api::request_context& context_;
  const model_entry& entry_;
  const io_executor executor_;
  std::unique_ptr<copy_job> job_;  // null: not chosen, or begun
  std::optional<answer_gatherer> gathered_;
  std::chrono::steady_clock::time_point since_{}, first_{}, came_{};
};

}  // namespace weir::gateway::shadow
