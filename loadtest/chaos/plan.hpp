// What the chaos proxy does to one connection, drawn from its options: pure and seeded.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::loadtest::chaos {

// Each at a byte of one direction, once that many bytes were passed on; at 0, when the first byte arrives.
enum class act : std::uint8_t {
  reset,          // RST to both sides, counted in bytes to the client
  reset_request,  // RST to both sides, counted in bytes to the server
  half_close,     // FIN to the client; the server's further bytes are dropped, the client's are passed on
  black_hole,     // nothing is passed on any more, in either direction; the sockets stay open
  garble,         // all bits of the byte to the client are turned
  add,            // bytes of nobody are put in, to the client
  refuse,         // RST instead of any byte
};

struct act_row {
  act kind;
  std::string_view name;
};

std::span<const act_row> act_table();
std::string_view act_name(act kind);

struct planned_act {
  act kind;
  std::uint64_t at = 0;
};

struct chaos_options {
  std::string listen = "127.0.0.1:0";
  std::string to;  // HOST:PORT
  std::vector<planned_act> acts;
  double share = 1;              // of the connections that get the acts
  bool random_schedule = false;  // instead of the acts one drawn for each connection
  std::uint64_t k_min = 0;       // of a drawn act's byte
  std::uint64_t k_max = 4'096;
  std::uint64_t seed = 1;
  double delay_ms = 0;  // before each read is passed on
  double jitter_ms = 0;
  std::uint64_t rate_bytes_per_s = 0;  // each direction; 0: unlimited
  std::uint64_t piece_bytes = 0;       // a send's most; 0: as read
  double piece_gap_ms = 0;
  std::string add_at_end;  // sent to the client before the server's FIN
  bool verbose = false;
};

enum class direction : std::uint8_t { to_client, to_server };

// The acts of one connection by direction, each in the order of their bytes.
struct connection_plan {
  std::deque<planned_act> to_client;
  std::deque<planned_act> to_server;
  bool refuse = false;
  bool touched = false;  // it gets acts or added bytes at its end

  std::deque<planned_act>& of(direction d) { return d == direction::to_client ? to_client : to_server; }
  const std::deque<planned_act>& of(direction d) const {
    return d == direction::to_client ? to_client : to_server;
  }
};

connection_plan draw_plan(const chaos_options& options, std::mt19937_64& random);

// The most bytes of one send: the piece, and with a rate what it lets through in 10 ms.
std::uint64_t send_bytes_max(const chaos_options& options);

}  // namespace weir::loadtest::chaos
