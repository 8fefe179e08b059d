// JSON Schema's `pattern`: a part of ECMA-262's regular expressions over code points, as an automaton for the
// whole string that has a match somewhere (patterns are not anchored).
//
// Understood: literals, `.`, classes with ranges and \d \w \s \D \W \S, \t \n \r \f \v \0 \xHH \uHHHH \u{H},
// (...), (?:...), |, * + ? {n} {n,} {n,m} with or without `?` behind them, ^ and $ anywhere. Everything else
// (lookaround, back references, \b, \p, named groups) is an error that says so. Pure; any thread.
#pragma once

#include <string_view>

#include "engine/result.hpp"
#include "engine/structure/char_automaton.hpp"

namespace weir::engine::structure {

result<char_automaton> compile_pattern(std::string_view pattern);

}  // namespace weir::engine::structure
