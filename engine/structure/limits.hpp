// Limits of everything that a client's schema decides. A schema beyond one is refused with an error that
// names the limit; none is ever cut to fit. Together they bound the time of a compilation to some tens of
// milliseconds and what it leaves in memory to some megabytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::engine::structure {

// A schema as text, and as a tree. Agents' largest tool declarations are below 64 KiB.
inline constexpr std::size_t k_schema_bytes_max = 256 << 10;
inline constexpr std::size_t k_schema_depth_max = 64;
inline constexpr std::size_t k_schema_values_max = 32'768;

inline constexpr std::size_t k_properties_max = 512;    // of one object
inline constexpr std::size_t k_prefix_items_max = 256;  // of one array
inline constexpr std::size_t k_enum_values_max = 2048;  // of one enum
inline constexpr std::size_t k_enum_bytes_max = 64 << 10;
inline constexpr std::size_t k_alternatives_max = 256;  // what anyOf and allOf of one place multiply to
inline constexpr std::size_t k_conjuncts_max = 64;      // schemas that hold for one value at once
inline constexpr std::int64_t k_count_max = 1 << 24;    // minLength, maxItems and the like

inline constexpr std::size_t k_pattern_bytes_max = 1024;
inline constexpr std::size_t k_pattern_depth_max = 32;       // of groups
inline constexpr std::int64_t k_pattern_repeat_max = 512;    // of {n,m}
inline constexpr std::size_t k_pattern_nodes_max = 4096;     // states before determinisation
inline constexpr std::size_t k_pattern_classes_max = 256;    // sets of characters that it tells apart
inline constexpr std::size_t k_pattern_steps_max = 1 << 18;  // elementary operations of its determinisation
inline constexpr std::size_t k_string_states_max = 2048;     // of one string's automaton, lengths included

// Numbers are generated with at most so many digits on either side of the point.
inline constexpr int k_number_digits_max = 20;
inline constexpr int k_exponent_digits_max = 2;  // so that every number is one of 64 bits too

// A grammar: rules, states and edges of all of them.
inline constexpr std::size_t k_rules_max = 4096;
inline constexpr std::size_t k_states_max = 1 << 16;
inline constexpr std::size_t k_edges_max = 1 << 18;
// Elementary operations of a compilation.
inline constexpr std::size_t k_compile_steps_max = 1 << 20;

// Calls that may be open at once while matching: a level of JSON takes up to three.
inline constexpr std::uint32_t k_call_depth_max = 192;

// What matching one grammar remembers (states, their transitions, token masks) before it begins anew.
inline constexpr std::size_t k_automaton_bytes_max = 8 << 20;

// Functions that one answer may call one after another.
inline constexpr std::uint32_t k_calls_max = 64;

}  // namespace weir::engine::structure
