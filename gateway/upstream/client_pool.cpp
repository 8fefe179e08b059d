#include "gateway/upstream/client_pool.hpp"

#include <boost/asio/post.hpp>
#include <utility>

namespace weir::gateway::upstream {

asio::execution_context::id client_pool::id;

client_pool::client_pool(asio::execution_context& context)
    : asio::execution_context::service(context),
      timer_(std::make_unique<io_timer>(static_cast<asio::io_context&>(context).get_executor())) {}

client_pool& client_pool::of(const io_executor& executor) {
  return asio::use_service<client_pool>(executor.context());
}

std::shared_ptr<http::connection> client_pool::take(const origin& target) {
  const auto found = shelves_.find(target.id);
  if (found == shelves_.end()) return nullptr;
  auto& idle = found->second.idle;
  while (!idle.empty()) {
    auto [link, since] = std::move(idle.back());
    idle.pop_back();
    if (clock::now() - since < k_idle_max && link->quiet()) return link;
    link->close();
  }
  return nullptr;
}

// Bytes that came behind the reply may still sit in a TLS stream, unseen from outside: a read makes them
// visible within one turn of the loop, and only then may the connection be handed out.
void client_pool::give(std::shared_ptr<const origin> target, std::shared_ptr<http::connection> link) {
  if (!link->is_tls()) return keep(std::move(target), std::move(link));
  link->read_while_idle();
  asio::post(timer_->get_executor(), [this, target = std::move(target), link = std::move(link)]() mutable {
    keep(std::move(target), std::move(link));
  });
}

void client_pool::keep(std::shared_ptr<const origin> target, std::shared_ptr<http::connection> link) {
  if (closed_ || !link->clean()) return link->close();
  auto& own = shelves_[target->id];
  if (!own.target) own.target = std::move(target);
  if (own.idle.size() >= k_idle_connections_max) return link->close();
  own.idle.push_back({std::move(link), clock::now()});
  arm_sweep();
}

void client_pool::arm_sweep() {
  if (std::exchange(armed_, true)) return;
  timer_->expires_after(k_sweep_period);
  timer_->async_wait([this](const boost::system::error_code& ec) {
    if (!ec) sweep();
  });
}

void client_pool::sweep() {
  armed_ = false;
  const auto oldest = clock::now() - k_idle_max;
  for (auto entry = shelves_.begin(); entry != shelves_.end();) {
    auto& idle = entry->second.idle;
    std::size_t expired = 0;
    while (expired < idle.size() && idle[expired].since <= oldest) idle[expired++].link->close();
    idle.erase(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(expired));
    entry = idle.empty() ? shelves_.erase(entry) : std::next(entry);
  }
  if (!shelves_.empty()) arm_sweep();
}

void client_pool::shutdown() noexcept {
  closed_ = true;
  shelves_.clear();
  timer_.reset();
}

}  // namespace weir::gateway::upstream
