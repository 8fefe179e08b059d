// The coroutine and executor types of the I/O threads. Every I/O thread runs one single-threaded io_context,
// so the executor type is concrete (no type erasure per operation) and no strand is needed.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

namespace weir::gateway {

namespace asio = boost::asio;

using io_executor = asio::io_context::executor_type;

template <class T>
using task = asio::awaitable<T, io_executor>;

inline constexpr asio::use_awaitable_t<io_executor> use_task{};

using io_timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                            asio::wait_traits<std::chrono::steady_clock>, io_executor>;

}  // namespace weir::gateway
