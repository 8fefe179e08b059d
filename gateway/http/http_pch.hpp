// Precompiled: what nearly every source of this folder needs of Asio and Beast. Included by the build, never
// by a source.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/http/fields.hpp>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>
