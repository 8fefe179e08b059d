#include "policy/failover/attempts.hpp"

#include <catch2/catch.hpp>

namespace weir::policy::failover {
namespace {

constexpr std::int64_t k_ms = 1'000'000;
constexpr std::int64_t k_s = 1'000 * k_ms;
constexpr std::int64_t k_window = 32'768;

struct fixture {
  attempt_terms terms;
  share_budget retries{{}};
  share_budget hedges{{.share_permille = 20, .units_min = 0}};
  std::int64_t now = 10 * k_s;

  attempts make(std::int64_t time_ns = 60 * k_s) {
    return {terms, {.retries = &retries, .hedges = &hedges, .cost = 100}, now + time_ns};
  }
};

// Begun on target 0.
struct begun : fixture {
  attempts a = make();
  begun() {
    REQUIRE(a.begin(now).what == step::pick);
    const auto go = a.placed(0, k_window, now);
    REQUIRE(go.what == step::wait);
    REQUIRE(go.attempt == 0);
    REQUIRE(go.content_by_ns == now + 60 * k_s);
    REQUIRE(go.wake_ns == now + 60 * k_s);
  }
};

void check_end(const action& got, failure_kind why, client_reply reply) {
  CHECK(got.what == step::end);
  INFO(to_text(got.how.why));
  CHECK(got.how.why == why);
  CHECK(got.how.reply == reply);
}

TEST_CASE_METHOD(begun, "an answer: forwarded once, ended once, and nothing after") {
  CHECK(a.content(0, now).what == step::forward);
  CHECK(a.content(0, now).what == step::none);
  check_end(a.finished(0, now), failure_kind::none, client_reply::relayed);
  CHECK(a.ended());
  CHECK(a.finished(0, now).what == step::none);
  CHECK(a.failed(0, failure_kind::broken, 0, now).what == step::none);
  CHECK(a.client_gone().what == step::none);
  CHECK(a.tick(now + 100 * k_s).what == step::none);
  CHECK(a.placed(1, k_window, now).what == step::none);
}

TEST_CASE_METHOD(begun, "A1, A2, A10: what fails before the first content goes to another target") {
  const auto kind = GENERATE(failure_kind::unreachable, failure_kind::broken, failure_kind::server_error,
                             failure_kind::unavailable, failure_kind::too_slow, failure_kind::frozen,
                             failure_kind::key_refused, failure_kind::quota_exhausted);
  CHECK(a.failed(0, kind, 0, now).what == step::pick);
  CHECK_FALSE(a.may_use(0, k_window, now));
  CHECK_FALSE(a.may_use(0, k_window, now + 1'000 * k_s));
  CHECK(a.may_use(1, k_window, now));
  CHECK(retries.taken() == 1);
  const auto go = a.placed(1, k_window, now);
  CHECK(go.what == step::wait);
  CHECK(go.attempt == 1);
  SECTION("which answers") {
    CHECK(a.content(0, now).what == step::none);  // of the one that is over
    const auto out = a.content(1, now);
    CHECK(out.what == step::forward);
    CHECK(out.attempt == 1);
  }
  SECTION("two attempts are all") {
    check_end(a.failed(1, failure_kind::broken, 0, now), failure_kind::broken, client_reply::bad_gateway);
  }
}

TEST_CASE_METHOD(begun, "what a target's API cannot say was never sent: the next target comes for free") {
  CHECK(a.failed(0, failure_kind::unsupported, 0, now).what == step::pick);
  CHECK_FALSE(a.may_use(0, k_window, now));
  CHECK(retries.taken() == 0);
  SECTION("and nobody else is left: the reason is the answer") {
    check_end(a.none_placed(0, now), failure_kind::unsupported, client_reply::pass_through);
  }
  SECTION("and both attempts are still there") {
    CHECK(a.placed(1, k_window, now).attempt == 1);
    CHECK(a.failed(1, failure_kind::broken, 0, now).what == step::pick);
    CHECK(retries.taken() == 1);
    CHECK(a.placed(2, k_window, now).attempt == 2);
    check_end(a.failed(2, failure_kind::broken, 0, now), failure_kind::broken, client_reply::bad_gateway);
  }
}

TEST_CASE_METHOD(begun, "a place that another took first is as if it had not been picked") {
  CHECK(a.unplaced(0).what == step::pick);
  CHECK(a.begun() == 0);
  CHECK(a.may_use(0, k_window, now));
  CHECK(a.unplaced(0).what == step::none);
  CHECK(a.placed(0, k_window, now).attempt == 0);
  CHECK(a.failed(0, failure_kind::broken, 0, now).what == step::pick);
  CHECK(a.placed(1, k_window, now).attempt == 1);
  CHECK(a.unplaced(1).what == step::pick);
  CHECK(retries.taken() == 1);
  check_end(a.none_placed(0, now), failure_kind::broken, client_reply::bad_gateway);
  CHECK(retries.taken() == 0);
}

TEST_CASE_METHOD(begun, "A3, A5, A8: after the first content it ends with an error event") {
  CHECK(a.content(0, now).what == step::forward);
  const auto kind = GENERATE(failure_kind::interrupted, failure_kind::broken, failure_kind::frozen,
                             failure_kind::stale_connection, failure_kind::rate_limited);
  check_end(a.failed(0, kind, 0, now), failure_kind::interrupted, client_reply::error_event);
  CHECK(retries.taken() == 0);
}

TEST_CASE_METHOD(begun, "A7: of two attempts only one is ever forwarded") {
  CHECK(a.failed(0, failure_kind::broken, 0, now).what == step::pick);
  CHECK(a.placed(1, k_window, now).attempt == 1);
  int forwards = 0;
  for (const int attempt : {1, 0, 1, 1}) forwards += a.content(attempt, now).what == step::forward ? 1 : 0;
  CHECK(forwards == 1);
}

TEST_CASE_METHOD(begun, "F3: a connection that lay closed in the pool is replaced for free, once") {
  const auto again = a.failed(0, failure_kind::stale_connection, 0, now);
  CHECK(again.what == step::reconnect);
  CHECK(again.attempt == 0);
  CHECK(retries.taken() == 0);
  CHECK(a.begun() == 1);
  SECTION("then it answers") {
    CHECK(a.content(0, now).what == step::forward);
  }
  SECTION("twice is a failure of the target") {
    CHECK(a.failed(0, failure_kind::stale_connection, 0, now).what == step::pick);
    CHECK(retries.taken() == 1);
  }
}

TEST_CASE_METHOD(begun, "429: another target; the first one only after its Retry-After") {
  CHECK(a.failed(0, failure_kind::rate_limited, 5 * k_s, now).what == step::pick);
  CHECK_FALSE(a.may_use(0, k_window, now + 5 * k_s - 1));
  CHECK(a.may_use(0, k_window, now + 5 * k_s));
  SECTION("no other, and the pause is long: 503 with what is left of it") {
    const auto out = a.none_placed(0, now + k_s);
    check_end(out, failure_kind::rate_limited, client_reply::unavailable);
    CHECK(out.how.retry_after_ns == 4 * k_s);
    CHECK(retries.taken() == 0);
  }
  SECTION("no other, and the pause is short by now: waited for, once") {
    const auto pause = a.none_placed(0, now + 4 * k_s);
    CHECK(pause.what == step::wait);
    CHECK(pause.wake_ns == now + 5 * k_s);
    CHECK(a.tick(now + 5 * k_s - 1).what == step::wait);
    CHECK(a.tick(now + 5 * k_s).what == step::pick);
    CHECK(retries.taken() == 1);
    CHECK(a.none_placed(now + 6 * k_s, now + 5 * k_s).what == step::end);
    CHECK(retries.taken() == 0);
  }
  SECTION("H11: the earliest of several tells the Retry-After") {
    CHECK(a.placed(1, k_window, now).attempt == 1);
    const auto out = a.failed(1, failure_kind::overloaded, 9 * k_s, now + k_s);
    check_end(out, failure_kind::overloaded, client_reply::unavailable);
    CHECK(out.how.retry_after_ns == 4 * k_s);
  }
}

TEST_CASE_METHOD(begun, "A12: after an overflow only a larger window is tried, else the client is told so") {
  CHECK(a.failed(0, failure_kind::context_overflow, 0, now).what == step::pick);
  CHECK_FALSE(a.may_use(1, k_window, now));
  CHECK_FALSE(a.may_use(1, 0, now));  // not known to be larger
  CHECK(a.may_use(1, k_window + 1, now));
  SECTION("none") {
    check_end(a.none_placed(0, now), failure_kind::context_overflow, client_reply::context_length);
  }
  SECTION("one") {
    CHECK(a.placed(1, 2 * k_window, now).attempt == 1);
    check_end(a.failed(1, failure_kind::context_overflow, 0, now), failure_kind::context_overflow,
              client_reply::context_length);
  }
}

TEST_CASE_METHOD(begun, "G3: the client's own error is passed through at once") {
  const auto out = a.failed(0, failure_kind::refused, 0, now);
  check_end(out, failure_kind::refused, client_reply::pass_through);
  CHECK(out.how.attempt == 0);
}

TEST_CASE_METHOD(begun, "E4: the client leaves") {
  SECTION("before the first content") {}
  SECTION("in the middle of a stream") {
    a.content(0, now);
  }
  SECTION("while another target is chosen") {
    a.failed(0, failure_kind::broken, 0, now);
  }
  check_end(a.client_gone(), failure_kind::client_gone, client_reply::nothing);
  CHECK(retries.taken() == 0);
  CHECK(a.placed(1, k_window, now).what == step::none);
}

TEST_CASE_METHOD(begun, "the deadline ends what has no content, and nothing that has") {
  CHECK(a.tick(now + 60 * k_s - 1).what == step::wait);
  SECTION("without content") {
    check_end(a.tick(now + 60 * k_s), failure_kind::out_of_time, client_reply::timed_out);
  }
  SECTION("F1: a stream goes on") {
    CHECK(a.content(0, now).what == step::forward);
    CHECK(a.tick(now + 600 * k_s).what == step::wait);
    check_end(a.finished(0, now + 600 * k_s), failure_kind::none, client_reply::relayed);
  }
  SECTION("no attempt is begun with no time for it") {
    check_end(a.failed(0, failure_kind::broken, 0, now + 60 * k_s - k_ms), failure_kind::broken,
              client_reply::bad_gateway);
  }
  SECTION("nor after a target was waited for") {
    CHECK(a.failed(0, failure_kind::broken, 0, now).what == step::pick);
    check_end(a.placed(1, k_window, now + 60 * k_s - k_ms), failure_kind::out_of_time,
              client_reply::timed_out);
    CHECK(retries.taken() == 0);
  }
}

TEST_CASE_METHOD(begun, "a target is blamed for a timeout only if it had a fair part of the time") {
  CHECK(a.timeout_of(0, now + 60 * k_s) == ending::first_content_timeout);
  CHECK(a.failed(0, failure_kind::broken, 0, now + 50 * k_s).what == step::pick);
  CHECK(a.placed(1, k_window, now + 50 * k_s).attempt == 1);
  CHECK(a.timeout_of(1, now + 60 * k_s) == ending::deadline);
}

TEST_CASE_METHOD(fixture, "an attempt's own limit comes before the deadline") {
  terms.content_ns = 20 * k_s;
  auto a = make();
  a.begin(now);
  CHECK(a.placed(0, k_window, now).content_by_ns == now + 20 * k_s);
  CHECK(a.timeout_of(0, now + 20 * k_s) == ending::first_content_timeout);
  a.failed(0, failure_kind::too_slow, 0, now + 20 * k_s);
  a.placed(1, k_window, now + 50 * k_s);
  CHECK(a.timeout_of(1, now + 60 * k_s) == ending::first_content_timeout);
}

TEST_CASE_METHOD(fixture, "no target at all: the router's reasons are the answer") {
  auto a = make();
  REQUIRE(a.begin(now).what == step::pick);
  SECTION("none known to come back") {
    const auto out = a.none_placed(0, now);
    check_end(out, failure_kind::unavailable, client_reply::unavailable);
    CHECK(out.how.never_placed);
    CHECK(out.how.retry_after_ns == 0);
  }
  SECTION("one comes back later") {
    const auto out = a.none_placed(now + 30 * k_s, now);
    CHECK(out.how.never_placed);
    CHECK(out.how.retry_after_ns == 30 * k_s);
  }
  SECTION("one comes back soon: waited for, and that is no retry") {
    CHECK(a.none_placed(now + k_s, now).wake_ns == now + k_s);
    CHECK(a.tick(now + k_s).what == step::pick);
    CHECK(retries.taken() == 0);
    CHECK(a.placed(0, k_window, now + k_s).attempt == 0);
  }
}

TEST_CASE_METHOD(fixture, "shed from the queue: 503 with the queue's own Retry-After") {
  auto a = make();
  REQUIRE(a.begin(now).what == step::pick);
  SECTION("before any attempt") {}
  SECTION("while it waits for a second one") {
    a.placed(0, k_window, now);
    REQUIRE(a.failed(0, failure_kind::rate_limited, k_s, now).what == step::pick);
  }
  const auto out = a.shed(3 * k_s);
  check_end(out, failure_kind::shed, client_reply::unavailable);
  CHECK(out.how.never_placed == (a.begun() == 0));
  CHECK(out.how.retry_after_ns == 3 * k_s);
  CHECK(retries.taken() == 0);
  CHECK(a.shed(k_s).what == step::none);
}

TEST_CASE_METHOD(fixture, "no retry without budget") {
  for (int i = 0; i < 3; ++i) REQUIRE(retries.take(1, now));
  auto a = make();
  a.begin(now);
  a.placed(0, k_window, now);
  check_end(a.failed(0, failure_kind::unreachable, 0, now), failure_kind::unreachable,
            client_reply::bad_gateway);
}

struct hedged : fixture {
  hedged() {
    terms.hedge_after_ns = 2 * k_s;
    hedges.add(1'000'000, now);
  }
};

TEST_CASE_METHOD(hedged, "a hedge: the first content wins, the other is cancelled") {
  auto a = make();
  a.begin(now);
  CHECK(a.placed(0, k_window, now).wake_ns == now + 2 * k_s);
  CHECK(a.tick(now + 2 * k_s).what == step::pick);
  CHECK_FALSE(a.may_use(0, k_window, now));
  const int winner = GENERATE(0, 1);
  CHECK(a.placed(1, k_window, now + 2 * k_s).attempt == 1);
  const auto out = a.content(winner, now + 3 * k_s);
  CHECK(out.what == step::forward);
  CHECK(out.attempt == winner);
  CHECK(out.cancel == 1 - winner);
  CHECK(a.content(1 - winner, now + 3 * k_s).what == step::none);
  CHECK(a.failed(1 - winner, failure_kind::cancelled, 0, now + 3 * k_s).what == step::none);
  CHECK(a.finished(winner, now + 4 * k_s).what == step::end);
  CHECK(hedges.taken() == 100);
  CHECK(retries.taken() == 0);
}

TEST_CASE_METHOD(hedged, "a hedge that is not needed any more is not begun, and costs nothing") {
  auto a = make();
  a.begin(now);
  a.placed(0, k_window, now);
  CHECK(a.tick(now + 2 * k_s).what == step::pick);
  SECTION("the first one answers while a target is chosen") {
    CHECK(a.content(0, now + 2 * k_s).what == step::forward);
    CHECK(a.placed(1, k_window, now + 2 * k_s).what == step::none);
  }
  SECTION("there is no other") {
    CHECK(a.none_placed(0, now + 2 * k_s).what == step::wait);
    CHECK(a.tick(now + 10 * k_s).what == step::wait);
  }
  CHECK(hedges.taken() == 0);
}

TEST_CASE_METHOD(hedged, "a hedge that finds its place taken chooses again, and stays a hedge") {
  auto a = make();
  a.begin(now);
  a.placed(0, k_window, now);
  a.tick(now + 2 * k_s);
  CHECK(a.placed(1, k_window, now + 2 * k_s).attempt == 1);
  CHECK(a.unplaced(1).what == step::pick);
  CHECK(a.none_placed(0, now + 2 * k_s).what == step::wait);
  CHECK(hedges.taken() == 0);
  CHECK(retries.taken() == 0);
}

TEST_CASE_METHOD(hedged, "when one of two fails the other goes on; when both do, that was all") {
  auto a = make();
  a.begin(now);
  a.placed(0, k_window, now);
  a.tick(now + 2 * k_s);
  a.placed(1, k_window, now + 2 * k_s);
  CHECK(a.failed(0, failure_kind::broken, 0, now + 3 * k_s).what == step::wait);
  check_end(a.failed(1, failure_kind::unreachable, 0, now + 3 * k_s), failure_kind::unreachable,
            client_reply::bad_gateway);
}

TEST_CASE_METHOD(fixture, "hedges are off by default, and bounded by their share of the cost") {
  auto off = make();
  off.begin(now);
  CHECK(off.placed(0, k_window, now).wake_ns == now + 60 * k_s);
  CHECK(off.tick(now + 50 * k_s).what == step::wait);

  terms.hedge_after_ns = k_s;
  int begun = 0;
  for (int i = 0; i < 1'000; ++i) {
    auto a = make();
    a.begin(now);
    a.placed(0, k_window, now);
    begun += a.tick(now + k_s).what == step::pick && a.placed(1, k_window, now + k_s).attempt == 1 ? 1 : 0;
  }
  CHECK(begun == 1'001 * 20 / 1'000);
}

}  // namespace
}  // namespace weir::policy::failover
