// Writes nfc_data.cpp from the Unicode tables of the Node.js that runs it:
//   node make_nfc.mjs > nfc_data.cpp
const VERSION = '16.0'; // as make_unicode_classes.mjs
if (process.versions.unicode !== VERSION) {
  throw new Error(`needs Unicode ${VERSION}, this Node.js has ${process.versions.unicode}`);
}

const all = [];
for (let codePoint = 0; codePoint <= 0x10ffff; ++codePoint) {
  if (codePoint < 0xd800 || codePoint > 0xdfff) all.push(String.fromCodePoint(codePoint));
}
const isSyllable = (c) => c >= '\uac00' && c <= '\ud7a3';
const changes = (text) => text.normalize('NFD') !== text;

// The combining class, of which only the order matters, by whether two marks change places. U+0334 has the
// lowest class that is not 0, U+0345 the highest.
const marks = all.filter(
  (c) => /\p{M}/u.test(c) && !changes(c) && (changes('\u0345' + c) || changes(c + '\u0334')),
);
const classes = []; // lists of marks, ascending
for (const mark of marks) {
  const same = classes.find(([other]) => !changes(other + mark) && !changes(mark + other));
  const above = classes.findIndex(([other]) => changes(other + mark));
  if (same) same.push(mark);
  else classes.splice(above < 0 ? classes.length : above, 0, [mark]);
}
for (const c of all) {
  if (!/\p{M}/u.test(c) && (changes('\u0345' + c) || changes(c + '\u0334')) && !changes(c)) {
    throw new Error(`${c} has a class and is no mark`);
  }
}
const classOf = new Map(classes.flatMap((list, i) => list.map((mark) => [mark, i + 1])));

const words = {marks: [], decompositions: [], compositions: []};
let last = 0;
for (const c of all) {
  const value = classOf.get(c) ?? 0;
  if (value !== last) words.marks.push(c.codePointAt(0) * 256 + value);
  last = value;
}
for (const c of all) {
  if (isSyllable(c) || !changes(c)) continue;
  const parts = [...c.normalize('NFD')];
  words.decompositions.push(c.codePointAt(0), parts.length, ...parts.map((p) => p.codePointAt(0)));
  if (c.normalize('NFC') !== c) continue;
  const second = parts.pop();
  const first = parts.join('').normalize('NFC');
  if ([...first].length !== 1 || (first + second).normalize('NFC') !== c || !/[\p{M}\p{L}]/u.test(second)) {
    throw new Error(`cannot take ${c} apart`);
  }
  words.compositions.push(first.codePointAt(0), second.codePointAt(0), c.codePointAt(0));
}

const array = (name, list) => {
  const lines = [];
  for (let i = 0; i < list.length; i += 8) {
    lines.push(`    ${list.slice(i, i + 8).map((word) => `0x${word.toString(16).toUpperCase()}`).join(', ')},`);
  }
  return `constexpr std::uint32_t ${name}[] = {\n${lines.join('\n')}\n};`;
};
console.log(`// Made by make_nfc.mjs from Unicode ${VERSION}; not edited by hand.
#include "engine/text/nfc.hpp"

namespace weir::engine::text {
namespace {

${array('k_marks', words.marks)}

${array('k_decompositions', words.decompositions)}

${array('k_compositions', words.compositions)}

}  // namespace

nfc_data nfc_tables() { return {k_marks, k_decompositions, k_compositions}; }

}  // namespace weir::engine::text`);
