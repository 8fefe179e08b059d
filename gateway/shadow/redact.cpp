#include "gateway/shadow/redact.hpp"

#include <algorithm>
#include <vector>

#include "gateway/api/json_text.hpp"

namespace weir::gateway::shadow {

namespace {

// What of each path leads on from the value at hand.
using open_paths = std::vector<std::span<const path_step>>;

class cutter {
 public:
  explicit cutter(std::string_view body) : body_(body) {}

  // Recurses as deep as the longest path.
  void visit(std::size_t at, const open_paths& paths) {
    const bool lists = std::any_of(paths.begin(), paths.end(), [](auto p) { return p.front().is_element(); });
    const bool names =
        std::any_of(paths.begin(), paths.end(), [](auto p) { return !p.front().is_element(); });
    if (names) visit_members(at, paths);
    if (lists) visit_elements(at, paths);
  }
  std::string apply() { return edits_.apply(body_); }

 private:
  void visit_members(std::size_t at, const open_paths& paths) {
    const auto members = api::members_of(body_, at);
    std::vector<bool> cut(members.size(), false);
    for (std::size_t i = 0; i < members.size(); ++i) {
      open_paths inside;
      for (const auto path : paths) {
        if (path.front().is_element() || !api::is_key(members[i].key.in(body_), path.front().name)) continue;
        if (path.size() == 1) cut[i] = true;
        if (path.size() > 1) inside.push_back(path.subspan(1));
      }
      if (!cut[i] && !inside.empty()) visit(members[i].value.begin, inside);
    }
    if (std::find(cut.begin(), cut.end(), true) != cut.end()) edits_.remove(body_, at, members, cut);
  }

  void visit_elements(std::size_t at, const open_paths& paths) {
    open_paths inside;
    for (const auto path : paths) {
      if (path.front().is_element() && path.size() > 1) inside.push_back(path.subspan(1));
    }
    if (inside.empty()) return;
    for (const auto& element : api::elements_of(body_, at)) visit(element.begin, inside);
  }

  std::string_view body_;
  api::text_edits edits_;
};

}  // namespace

std::string redact(std::string_view body, std::span<const field_path> paths) {
  open_paths all(paths.begin(), paths.end());
  if (all.empty()) return std::string(body);
  cutter cuts(body);
  cuts.visit(0, all);
  return cuts.apply();
}

}  // namespace weir::gateway::shadow
