/** Text that breaks tokenizers and templates, the same on every run. */

/** A small generator (mulberry32): the same numbers everywhere for one seed. */
export function generator(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let word = Math.imul(state ^ (state >>> 15), state | 1)
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61)
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32
  }
}

const pieces: readonly (readonly string[])[] = [
  ['the', ' tokenizer', 'Gateway', ' of', 'self', ' import', 'HTTP', 'snake_case', 'camelCase', ' def __init__(self):'],
  ["don't", "we'll", "I'M", "they'RE", "it'\u017f", "'s", "'LL", "l'été", '’s'],
  ['0', '7', '42', '1234567890', ' 3.14', '½', '²', '٣', '१', 'Ⅻ', '1e-9'],
  [
    ' ',
    '  ',
    '   ',
    '\n',
    '\n\n',
    '\r\n',
    '\t',
    ' \n ',
    '\u00a0',
    '\u2003',
    '\u3000',
    '\u2028',
    '\u0085',
    '\u200b',
    '\v',
    ' \t\n',
  ],
  ['!', '?!', '...', ' --', '{"a":[1]}', '<b>', '</think>', '$', '€', '—', '#', '\\n', '“q”', '¿'],
  [
    'straße',
    'Ärger',
    'A\u0308rger',
    'e\u0301te\u0301',
    'été',
    '\u212bngström',
    'ﬁnance',
    'İstanbul',
    'ǅ',
    '\u1e9b\u0323',
    'Z\u0351\u036b\u0343algo',
  ],
  ['Привет', ' мир', 'Ελλάς', 'Ὀδυσσεύς', 'שלום', 'مرحبا', 'بِسْمِ', 'नमस्ते', 'क्षि', 'ไทย', 'བོད', 'ខ្មែរ'],
  ['你好', '世界', '漢字', '\uf900', '日本語', 'ｶﾞ', 'が', 'か\u3099', '한국어', '\u1112\u1161\u11ab', '𠮷', '〇'],
  ['👋', '👋🏽', '👨‍👩‍👧‍👦', '🇩🇪', '❤️', '☃', '🏴\u{e0067}\u{e0062}\u{e007f}', '\u{1f9ff}', '𝒳', '𝟘'],
  ['<|im_start|>', '<|im_end|>', '<|endoftext|>', '<|im_end', '<|im_start|>user\n', '<tool_call>', '<|unknown|>'],
  [
    '\u0000',
    '\u0007',
    '\u001b[0m',
    '\u007f',
    '\ufeff',
    '\ufffd',
    '\u200d',
    '\u202e',
    '\ue000',
    '\uffff',
    '\u{10ffff}',
    '\u{f0000}',
  ],
]

/** A text of up to `length` pieces; sometimes any code point. */
export function fuzzText(random: () => number, length: number): string {
  let text = ''
  let group = pieces[Math.floor(random() * pieces.length)]!
  for (let count = 1 + Math.floor(random() * length); count > 0; count--) {
    if (random() < 0.5) group = pieces[Math.floor(random() * pieces.length)]!
    text += random() < 0.05 ? anyCharacter(random) : group[Math.floor(random() * group.length)]!
  }
  return text
}

/** Never half of a surrogate pair, which servers refuse as invalid text. */
function anyCharacter(random: () => number): string {
  const code = Math.floor(random() * (random() < 0.7 ? 0xffff : 0x10ffff))
  return code >= 0xd800 && code <= 0xdfff ? '\ufffd' : String.fromCodePoint(code)
}
