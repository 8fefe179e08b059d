// Arbitrary bytes as each body, query, Host and Origin of the admin API: reading ends, an error has a
// message, and what is accepted keeps its limits.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gateway/admin/access.hpp"
#include "gateway/admin/key_body.hpp"
#include "gateway/admin/page.hpp"
#include "gateway/auth/key_text.hpp"
#include "policy/limits/gcra.hpp"

using namespace weir::gateway;

namespace {

template <class T>
bool explained(const result<T>& read) {
  return read || !read.error().message.empty();
}

bool within(std::int64_t value, std::int64_t max) {
  return value >= 0 && value <= max;
}

bool sane(const admin::terms_change& change) {
  auth::key_terms terms;
  change.apply(terms);
  const auto& l = terms.limits;
  constexpr auto k_usd_max = static_cast<std::int64_t>(auth::k_usd_limit_max) * weir::policy::limits::k_usd;
  return within(l.requests_per_min, weir::policy::limits::k_rate_max) &&
         within(l.tokens_per_min, weir::policy::limits::k_rate_max) &&
         within(l.concurrent, auth::k_concurrent_max) && within(l.usd_per_day, k_usd_max) &&
         within(l.usd_per_month, k_usd_max) && terms.models.size() <= admin::k_models_max;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  const auto is_model = [](std::string_view name) { return name.size() < 100; };
  const auto made = admin::read_new_key(body, is_model);
  const auto change = admin::read_terms_change(body, is_model);
  const auto grace_s = admin::read_grace_s(body);
  const auto weight = admin::read_weight(body);
  const auto page = admin::read_page(body);
  if (!explained(made) || !explained(change) || !explained(grace_s) || !explained(weight) ||
      !explained(page) || !explained(admin::read_nothing(body))) {
    std::abort();
  }
  if (made && (!auth::fault_of_name(made->name).empty() || !auth::fault_of_name(made->tenant).empty()))
    std::abort();
  if ((made && !sane(made->terms)) || (change && !sane(*change))) std::abort();
  if (grace_s && !within(*grace_s, admin::k_grace_max_s)) std::abort();
  if (weight && (*weight < 1 || *weight > auth::k_weight_max)) std::abort();
  if (page && (page->limit < 1 || page->limit > admin::k_page_max)) std::abort();
  if (admin::is_own_host(body, {}) && body.find_first_of("/@ ,") != body.npos) std::abort();
  return 0;
}
