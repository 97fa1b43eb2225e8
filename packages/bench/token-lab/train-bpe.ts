/** Trains a byte-level BPE as Hugging Face's trainer does, so that a benchmark needs no downloaded vocabulary. */
import { pieceEnds } from '../../../src/core/tokens/pre-tokenize.ts'
import { readClasses } from '../../../src/core/tokens/unicode.ts'
import { unicodeClasses } from '../../../src/core/tokens/unicode-table.ts'

const QWEN2 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const specials = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']

/** A tokenizer.json with the Qwen2 pre-tokenizer and up to `merges` merges learned from `texts`. */
export function trainTokenizer(texts: readonly string[], merges: number): unknown {
  const names = byteNames()
  const learned = learnMerges(countWords(texts, names), merges)
  const inOrder = new Set([...specials, ...names, ...learned.map((pair) => pair.join(''))])
  const vocab = Object.fromEntries([...inOrder].map((name, id) => [name, id]))
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: specials.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: { type: 'NFC' },
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: QWEN2 }, behavior: 'Isolated', invert: false },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab,
      merges: learned,
    },
  }
}

/** GPT-2's printable name of each byte. */
function byteNames(): string[] {
  let shifted = 0x100
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
    return String.fromCharCode(printable ? byte : shifted++)
  })
}

function countWords(texts: readonly string[], names: readonly string[]): Map<string, number> {
  const words = new Map<string, number>()
  const classes = readClasses(unicodeClasses)
  for (const text of texts) {
    const bytes = new TextEncoder().encode(text.normalize('NFC'))
    for (let at = 0; at < bytes.length;) {
      const end = pieceEnds.qwen2({ bytes, classes }, at, bytes.length)
      if (end - at <= 48) {
        const word = Array.from(bytes.subarray(at, end), (byte) => names[byte]).join('')
        words.set(word, (words.get(word) ?? 0) + 1)
      }
      at = end
    }
  }
  return words
}

interface Word {
  symbols: string[]
  readonly count: number
}

/** The usual algorithm, with a heap of pairs by their count. */
function learnMerges(counts: ReadonlyMap<string, number>, max: number): [string, string][] {
  const words: Word[] = [...counts].map(([word, count]) => ({ symbols: [...word], count }))
  const pairs = new PairCounts()
  for (const [index, word] of words.entries()) pairs.addWord(word, index, 1)
  const merges: [string, string][] = []
  const made = new Set<string>()
  while (merges.length < max) {
    const best = pairs.best()
    if (best === null) break
    const [left, right] = best.split(' ') as [string, string]
    if (!made.has(left + right)) merges.push([left, right])
    made.add(left + right)
    for (const index of pairs.wordsWith(best)) {
      const word = words[index] as Word
      pairs.addWord(word, index, -1)
      word.symbols = mergeIn(word.symbols, left, right)
      pairs.addWord(word, index, 1)
    }
    pairs.forget(best)
  }
  return merges
}

function mergeIn(symbols: readonly string[], left: string, right: string): string[] {
  const out: string[] = []
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      out.push(left + right)
      i++
    } else out.push(symbols[i] as string)
  }
  return out
}

class PairCounts {
  readonly #counts = new Map<string, number>()
  readonly #words = new Map<string, Set<number>>()
  /** Max-heap of [count, pair]; outdated entries are skipped. */
  readonly #heap: [number, string][] = []

  addWord({ symbols, count }: Word, index: number, sign: 1 | -1): void {
    for (let i = 0; i + 1 < symbols.length; i++) {
      const pair = `${symbols[i]} ${symbols[i + 1]}`
      const now = (this.#counts.get(pair) ?? 0) + sign * count
      this.#counts.set(pair, now)
      if (sign < 0) continue
      const words = this.#words.get(pair) ?? new Set()
      this.#words.set(pair, words.add(index))
      this.#push([now, pair])
    }
  }

  wordsWith(pair: string): readonly number[] {
    return [...(this.#words.get(pair) ?? [])]
  }

  forget(pair: string): void {
    this.#counts.delete(pair)
    this.#words.delete(pair)
  }

  /** The most frequent pair that occurs at least twice. */
  best(): string | null {
    for (let top = this.#pop(); top !== undefined; top = this.#pop()) {
      const [count, pair] = top
      const now = this.#counts.get(pair) ?? 0
      if (now === count && now >= 2) return pair
      if (now < count && now >= 2) this.#push([now, pair])
    }
    return null
  }

  #push(entry: [number, string]): void {
    const heap = this.#heap
    let i = heap.push(entry) - 1
    for (let parent = (i - 1) >> 1; i > 0 && (heap[parent] as [number, string])[0] < entry[0]; parent = (i - 1) >> 1) {
      heap[i] = heap[parent] as [number, string]
      i = parent
    }
    heap[i] = entry
  }

  #pop(): [number, string] | undefined {
    const heap = this.#heap
    const top = heap[0]
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return top
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && (heap[child + 1] as [number, string])[0] > (heap[child] as [number, string])[0])
        child++
      if ((heap[child] as [number, string])[0] <= last[0]) break
      heap[i] = heap[child] as [number, string]
      i = child
    }
    heap[i] = last
    return top
  }
}
