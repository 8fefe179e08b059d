#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "gateway/cli/model_commands.hpp"

namespace weir::gateway::cli {

namespace {

// Of "GiB" or "gb" and the like; 0 where it is no unit of bytes.
double bytes_of_unit(std::string unit) {
  for (char& c : unit) c = CLI::detail::to_lower(std::string(1, c)).front();
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view k_prefixes = "kmgtp";
  const auto power = k_prefixes.find(unit.front());
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == std::string_view::npos) return 0;
  const auto exponent = static_cast<double>(power + 1);
  if (rest == "ib" || rest == "i") return std::pow(1024.0, exponent);
  return rest == "b" || rest.empty() ? std::pow(1000.0, exponent) : 0;
}

std::string in_unit(double value, std::initializer_list<std::pair<double, const char*>> units) {
  const auto* unit = units.begin();
  while (std::next(unit) != units.end() && value < unit->first) ++unit;
  const double shown = value / unit->first;
  return fmt::format("{:.{}f} {}", shown, unit->first == 1 ? 0 : shown < 10 ? 3 : 2, unit->second);
}

}  // namespace

CLI::Validator finite_range(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return good ? std::string() : fmt::format("'{}' is not a number from {} to {}", text, least, most);
  };
  return {check, fmt::format("FLOAT in [{} - {}]", least, most)};
}

CLI::Validator byte_size(std::int64_t least, std::int64_t most) {
  const auto read = [least, most](std::string& text) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::size_t unit = std::min(text.find_first_not_of(' ', end), text.size());
    double number = 0;
    const bool is_number = end > 0 && CLI::detail::lexical_cast(text.substr(0, end), number);
    const double bytes = is_number ? std::floor(number * bytes_of_unit(text.substr(unit))) : -1;
    const double limit = static_cast<double>(most);
    if (is_number && bytes_of_unit(text.substr(unit)) > 0 && bytes >= static_cast<double>(least) &&
        bytes <= limit) {
      text = std::to_string(static_cast<std::int64_t>(bytes));
      return std::string();
    }
    return fmt::format("'{}' is not a size from {} to {}, such as 80GB or 1.5GiB", text, bytes_text(least),
                       bytes_text(most));
  };
  return {CLI::Validator(read, "SIZE")};
}

std::string amount_text(std::int64_t count) {
  return in_unit(static_cast<double>(count),
                 {{1e9, "billion"}, {1e6, "million"}, {1e3, "thousand"}, {1, ""}});
}

std::string bytes_text(std::int64_t bytes) {
  return in_unit(static_cast<double>(bytes), {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "bytes"}});
}

}  // namespace weir::gateway::cli
