// Writes unicode_classes_data.cpp from the Unicode tables of the Node.js that runs it:
//   node make_unicode_classes.mjs > unicode_classes_data.cpp
// The version is the one of the regular expressions inside the published tokenizer; a newer one would give
// other ids.
const VERSION = '16.0'; // Node.js 22.12
if (process.versions.unicode !== VERSION) {
  throw new Error(`needs Unicode ${VERSION}, this Node.js has ${process.versions.unicode}`);
}

const HAN = 1,
  UPPER = 2,
  LOWER = 4,
  LETTER = 8,
  NUMBER = 16,
  SPACE = 32,
  NEWLINE = 64,
  PUNCTUATION = 128;

function flagsOf(char) {
  let flags = 0;
  if (/\p{Script=Han}/u.test(char)) flags |= HAN;
  else {
    if (/[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]/u.test(char)) flags |= UPPER;
    if (/[\p{Ll}\p{Lm}\p{Lo}\p{M}]/u.test(char)) flags |= LOWER;
  }
  if (/\p{L}/u.test(char)) flags |= LETTER;
  if (/\p{N}/u.test(char)) flags |= NUMBER;
  if (/\p{White_Space}/u.test(char)) flags |= SPACE;
  if (char === '\r' || char === '\n') flags |= NEWLINE;
  if (/[\p{P}\p{S}]/u.test(char)) flags |= PUNCTUATION;
  return flags;
}

// A run is (first code point << 8) | flags and reaches to the next one.
const runs = [];
let last = -1;
for (let codePoint = 0; codePoint <= 0x10ffff; ++codePoint) {
  const flags = codePoint >= 0xd800 && codePoint <= 0xdfff ? 0 : flagsOf(String.fromCodePoint(codePoint));
  if (flags !== last) runs.push(codePoint * 256 + flags);
  last = flags;
}

const words = runs.map((run) => `0x${run.toString(16).toUpperCase()}`);
const lines = [];
for (let i = 0; i < words.length; i += 9) lines.push(`    ${words.slice(i, i + 9).join(', ')},`);
console.log(`// Made by make_unicode_classes.mjs from Unicode ${VERSION}; not edited by hand.
#include "engine/text/unicode_classes.hpp"

namespace weir::engine::text {
namespace {

constexpr std::uint32_t k_runs[] = {
${lines.join('\n')}
};

}  // namespace

std::span<const std::uint32_t> unicode_class_runs() { return k_runs; }

}  // namespace weir::engine::text`);
