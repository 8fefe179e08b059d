// Runs a function on a thread pool and resumes the awaiting coroutine on its own I/O thread with the result.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "gateway/task.hpp"

namespace weir::gateway::upstream {

// `work` must own what it uses or use what the caller's frame keeps: a cancelled caller still waits for it.
template <class F>
auto offload(asio::thread_pool& pool, F work) -> task<std::invoke_result_t<F&>> {
  using value = std::invoke_result_t<F&>;
  const auto executor = co_await asio::this_coro::executor;
  std::optional<value> out;
  std::exception_ptr fault;
  auto initiate = [&](auto handler) {
    asio::post(pool, [&, executor, done = std::move(handler)]() mutable {
      try {
        out.emplace(work());
      } catch (...) {
        fault = std::current_exception();
      }
      asio::post(executor, std::move(done));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<io_executor>, void()>(std::move(initiate),
                                                                                  use_task);
  if (fault) std::rethrow_exception(fault);
  co_return std::move(*out);
}

}  // namespace weir::gateway::upstream
