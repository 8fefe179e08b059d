// An answer's grammar over a vocabulary, as the constraint that the engine follows. Masks are found once for
// each place of the grammar and kept, within k_automaton_bytes_max, for all sequences that share the
// constraint.
#pragma once

#include <memory>

#include "engine/constraint.hpp"
#include "engine/structure/answer_grammar.hpp"
#include "engine/structure/vocabulary.hpp"

namespace weir::engine::structure {

std::shared_ptr<const token_constraint> make_constraint(answer_grammar rules,
                                                        std::shared_ptr<const vocabulary> words);

}  // namespace weir::engine::structure
