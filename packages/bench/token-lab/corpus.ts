/**
 * Text for training and other text for measuring: documentation and type declarations of this checkout, and generated
 * Unicode.
 */
import { readdirSync, readFileSync } from 'node:fs'

export interface Corpus {
  readonly training: readonly string[]
  /** Not trained on. */
  readonly heldOut: string
}

const MAX_BYTES = 8_000_000

/** Reads `root` (a node_modules folder) file by file, in order of path; every fifth file is held out. */
export function readCorpus(root: URL, heldOutChars: number): Corpus {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(md|d\.ts)$/.test(path))
    .sort()
  const training: string[] = [unicodeText(1, 40_000)]
  const heldOut: string[] = [unicodeText(2, 4000)]
  let bytes = 0
  // There are many more type declarations than prose: takes every prose file and a few of the others.
  for (const [i, path] of files.filter((name, at) => name.endsWith('.md') || at % 8 === 0).entries()) {
    const text = readFileSync(new URL(path, root), 'utf8')
    if (text.length > 400_000) continue
    bytes += text.length
    if (bytes > MAX_BYTES) break
    if (i % 5 === 0) heldOut.push(text)
    else training.push(text)
  }
  return { training, heldOut: heldOut.join('\n').slice(0, heldOutChars) }
}

/** A small generator, so that runs repeat. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

const scripts: readonly (readonly [number, number])[] = [
  [0x61, 26],
  [0x41, 26],
  [0x3b1, 25],
  [0x430, 32],
  [0x5d0, 27],
  [0x627, 36],
  [0x905, 50],
  [0xe01, 46],
  [0x3041, 80],
  [0x4e00, 3000],
  [0xac00, 2000],
  [0x1f300, 500],
]

/** Words of many scripts with realistic frequencies. */
export function unicodeText(seed: number, words: number): string {
  const random = randomOf(seed)
  const dictionary = Array.from({ length: 2000 }, () => {
    const [first, size] = scripts[Math.floor(random() * scripts.length)] as readonly [number, number]
    return String.fromCodePoint(
      ...Array.from({ length: 1 + Math.floor(random() * 8) }, () => first + Math.floor(random() * size)),
    )
  })
  return Array.from({ length: words }, () => dictionary[Math.floor(random() ** 3 * dictionary.length)] as string).join(
    ' ',
  )
}

const odd = [
  "'s",
  "'LL",
  "don't",
  '  ',
  '\n',
  '\r\n\r\n',
  '\t',
  '\u0085',
  '\u00a0',
  '\u200d',
  '12',
  '3456',
  '٣',
  '½',
  'e\u0301',
  'Å',
  'ǅ',
  'ᄒ',
  'ᅡ',
  '!',
  '==',
  '<',
  '|>',
  'The ',
  'aaaa',
  '<|im_start|>',
  '<|endoftext|>',
]

/**
 * Short strings that are difficult for pre-tokenizers and normalisers. Without U+FEFF and U+017F, where the JavaScript
 * reference differs from the Rust one.
 */
export function oddStrings(count: number): string[] {
  const random = randomOf(3)
  const anyChar = (): string => {
    const code = Math.floor(random() * 0x30000)
    return (code >= 0xd800 && code < 0xe000) || code === 0xfeff || code === 0x17f ? 'x' : String.fromCodePoint(code)
  }
  return Array.from({ length: count }, () =>
    Array.from({ length: 1 + Math.floor(random() * 14) }, () =>
      random() < 0.2 ? anyChar() : (odd[Math.floor(random() * odd.length)] as string),
    ).join(''),
  )
}
