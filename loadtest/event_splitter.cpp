#include "loadtest/event_splitter.hpp"

namespace weir::loadtest {

bool event_splitter::push(std::string_view bytes, std::vector<std::string>& events) {
  held_ += bytes;
  std::size_t start = 0;
  for (auto end = held_.find_first_of("\r\n"); end != std::string::npos;
       end = held_.find_first_of("\r\n", start)) {
    std::string_view line(held_.data() + start, end - start);
    start = end + 1;
    const bool rest_of_crlf = after_cr_ && line.empty() && held_[end] == '\n';
    after_cr_ = held_[end] == '\r';
    if (rest_of_crlf) continue;
    if (line.empty()) {
      if (!data_.empty()) events.push_back(std::move(data_));
      data_.clear();
    } else if (line.starts_with("data:")) {
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      if (!data_.empty()) data_ += '\n';
      data_ += line;
    }
  }
  held_.erase(0, start);
  return held_.size() + data_.size() <= k_event_bytes_max;
}

}  // namespace weir::loadtest
