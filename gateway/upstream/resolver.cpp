#include "gateway/upstream/resolver.hpp"

#include <netdb.h>

#include <boost/asio/ip/address.hpp>
#include <cstring>
#include <map>
#include <queue>
#include <thread>
#include <utility>

namespace weir::gateway::upstream {

namespace {

using clock = std::chrono::steady_clock;
using boost::asio::ip::tcp;

struct due_lookup {
  clock::time_point at;
  std::weak_ptr<host_addresses> who;
  friend bool operator<(const due_lookup& a, const due_lookup& b) { return a.at > b.at; }  // earliest first
};

tcp::endpoint to_endpoint(const sockaddr& address, std::size_t bytes) {
  tcp::endpoint out;
  if (bytes > out.capacity()) return out;
  std::memcpy(out.data(), &address, bytes);
  out.resize(bytes);
  return out;
}

}  // namespace

std::shared_ptr<const address_list> host_addresses::get() const {
  const std::lock_guard lock(mutex_);
  return addresses_;
}

std::string host_addresses::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void host_addresses::wait_looked_up(clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return looked_up_; });
}

void host_addresses::set(std::shared_ptr<const address_list> addresses, std::string failure) {
  const std::lock_guard lock(mutex_);
  if (addresses) addresses_ = std::move(addresses);
  failure_ = std::move(failure);
  looked_up_ = true;
  changed_.notify_all();
}

void host_addresses::look_up() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host_.c_str(), std::to_string(port_).c_str(), &hints, &found);
  if (failed != 0) return set(nullptr, ::gai_strerror(failed));
  auto addresses = std::make_shared<address_list>();
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (addresses->size() == k_addresses_max) break;
    addresses->push_back(to_endpoint(*entry->ai_addr, entry->ai_addrlen));
  }
  ::freeaddrinfo(found);
  if (addresses->empty()) return set(nullptr, "the name has no address");
  set(std::move(addresses), {});
}

struct resolver::state {
  std::mutex mutex;
  std::condition_variable due_changed;
  std::priority_queue<due_lookup> due;  // under mutex
  std::size_t threads = 0;              // under mutex
  std::size_t idle = 0;                 // under mutex
  bool stopping = false;                // under mutex

  std::map<std::pair<std::string, std::uint16_t>, std::weak_ptr<host_addresses>> followed;  // under mutex

  std::shared_ptr<host_addresses> find(const std::string& host, std::uint16_t port);
  void remember(const std::string& host, std::uint16_t port, const std::shared_ptr<host_addresses>& who);
  static void run(const std::shared_ptr<state>& s);
  void add(const std::shared_ptr<state>& self, due_lookup lookup);
};

std::shared_ptr<host_addresses> resolver::state::find(const std::string& host, std::uint16_t port) {
  const std::lock_guard lock(mutex);
  const auto known = followed.find({host, port});
  return known == followed.end() ? nullptr : known->second.lock();
}

void resolver::state::remember(const std::string& host, std::uint16_t port,
                               const std::shared_ptr<host_addresses>& who) {
  const std::lock_guard lock(mutex);
  std::erase_if(followed, [](const auto& entry) { return entry.second.expired(); });
  followed[{host, port}] = who;
}

void resolver::state::add(const std::shared_ptr<state>& self, due_lookup lookup) {
  const std::lock_guard lock(mutex);
  due.push(std::move(lookup));
  due_changed.notify_one();
  if (idle > 0 || threads == k_lookup_threads_max) return;
  ++threads;
  std::thread([self] { run(self); }).detach();
}

void resolver::state::run(const std::shared_ptr<state>& s) {
  std::unique_lock lock(s->mutex);
  while (!s->stopping) {
    ++s->idle;
    if (s->due.empty()) {
      s->due_changed.wait(lock);
    } else if (s->due.top().at > clock::now()) {
      const auto at = s->due.top().at;
      s->due_changed.wait_until(lock, at);
    }
    --s->idle;
    if (s->stopping || s->due.empty() || s->due.top().at > clock::now()) continue;
    const auto who = s->due.top().who.lock();
    s->due.pop();
    if (!who) continue;
    lock.unlock();
    who->look_up();
    const auto next = clock::now() + (who->failure().empty() ? k_lookup_period : k_lookup_retry);
    lock.lock();
    s->due.push({next, who});
    s->due_changed.notify_one();
  }
}

resolver::resolver() : state_(std::make_shared<state>()) {}

resolver::~resolver() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->due_changed.notify_all();
}

std::shared_ptr<const host_addresses> resolver::follow(const std::string& host, std::uint16_t port) {
  if (auto known = state_->find(host, port)) return known;
  auto addresses = std::make_shared<host_addresses>(host, port);
  boost::system::error_code ec;
  const auto numeric = boost::asio::ip::make_address(host, ec);
  if (!ec) {
    addresses->set(std::make_shared<address_list>(1, tcp::endpoint(numeric, port)), {});
  } else {
    state_->remember(host, port, addresses);
    state_->add(state_, {clock::now(), addresses});
  }
  return addresses;
}

}  // namespace weir::gateway::upstream
