/** Compiles tokenizer.json to the compact vocabulary. Rejects settings that this tokenizer cannot reproduce exactly. */
import { IdBuffer } from './id-buffer.ts'
import { normalizerOf } from './normalize.ts'
import { createPieceCoder } from './piece-coder.ts'
import { normalStepsOf } from './piece-tokenizer.ts'
import { readTokenizerJson } from './read-tokenizer-json.ts'
import type { TokenizerParts } from './tokenizer-json-parts.ts'
import { unicodeClasses } from './unicode-table.ts'
import { HEAD_BYTES, MAGIC, MAX_IDS, Vocabulary, VocabularyError, type VocabularyHeader } from './vocabulary.ts'

export interface CompileInput {
  /** Parsed tokenizer.json. */
  readonly tokenizer: unknown
  /** Chat template of the served model. null: chats are measured in bytes. */
  readonly template: string | null
  /** `bos_token` and similar tokens of tokenizer_config.json. */
  readonly specials: Readonly<Record<string, string>>
}

type MergeRule = Pick<VocabularyHeader, 'merges'> & { readonly left: Uint8Array; readonly listed: Uint32Array }

/** Returns the compiled file. Throws a VocabularyError that names the unsupported setting. */
export function compileVocabulary(input: CompileInput): Uint8Array {
  const parts = readTokenizerJson(input.tokenizer)
  const rule = parts.scores === undefined ? mergeRule(parts) : scoreRule(parts.scores)
  const normalize = normalizerOf(normalStepsOf(parts))
  const header: VocabularyHeader = {
    preTokenizer: parts.preTokenizer,
    ...(parts.characters && { characters: parts.characters }),
    classes: unicodeClasses,
    nfc: parts.nfc,
    ignoreMerges: parts.ignoreMerges,
    merges: rule.merges,
    // Added tokens are searched in the normalized text, so Hugging Face's library normalizes them too.
    added: parts.added.map((token) => (token.normalized ? { ...token, text: normalize(token.text) } : token)),
    prefix: parts.prefix,
    suffix: parts.suffix,
    indirect: [],
    template: input.template,
    specials: input.specials,
  }
  const plain = write(header, parts, rule)
  return header.ignoreMerges ? plain : write({ ...header, indirect: indirectTokens(plain) }, parts, rule)
}

/** Scores take the place of merges. */
function scoreRule(scores: Float64Array): MergeRule {
  const words = new DataView(new ArrayBuffer(scores.length * 8))
  for (const [id, score] of scores.entries()) words.setFloat64(id * 8, score, true)
  const listed = Uint32Array.from({ length: scores.length * 2 }, (_, i) => words.getUint32(i * 4, true))
  return { merges: 'scores', left: new Uint8Array(scores.length), listed }
}

/** Determines whether each token has one merge in id order, or all its splits, or listed merges. */
function mergeRule({ tokens, merges }: TokenizerParts): MergeRule {
  const left = new Uint8Array(tokens.length)
  const counts = new Uint32Array(tokens.length)
  let oneInOrder = true
  let allInOrder = true
  let lastResult = -1
  let lastKey = -1
  for (const { result, leftId, leftLength } of merges) {
    counts[result] = (counts[result] as number) + 1
    left[result] = leftLength
    if (result <= lastResult) oneInOrder = false
    const key = result * MAX_IDS + leftId
    if (key <= lastKey) allInOrder = false
    lastResult = result
    lastKey = key
  }
  const none = new Uint32Array(0)
  if (oneInOrder) return { merges: 'one', left, listed: none }
  const blank = new Uint8Array(tokens.length)
  if (allInOrder && countsAreAllSplits(tokens, counts)) return { merges: 'all', left: blank, listed: none }
  return {
    merges: 'list',
    left: blank,
    listed: Uint32Array.from(merges, ({ result, leftLength }) => result * 256 + leftLength),
  }
}

/** Whether every split of every token into two tokens is a merge. */
function countsAreAllSplits(tokens: readonly Uint8Array[], counts: Uint32Array): boolean {
  const known = new Set(tokens.filter((bytes) => bytes.length > 0).map(latin1))
  return tokens.every((bytes, id) => {
    const text = latin1(bytes)
    let splits = 0
    for (let i = 1; i < text.length; i++) if (known.has(text.slice(0, i)) && known.has(text.slice(i))) splits++
    return splits === counts[id]
  })
}

/** One UTF-16 unit per byte. */
const latin1 = (bytes: Uint8Array): string => String.fromCharCode(...bytes)

/** Tokens that their own bytes do not give, so they must not be matched as a whole. */
function indirectTokens(file: Uint8Array): number[] {
  const vocabulary = new Vocabulary(file)
  const coder = createPieceCoder(vocabulary)
  const out = new IdBuffer()
  const indirect: number[] = []
  for (let id = 0; id < vocabulary.size; id++) {
    const bytes = vocabulary.bytesOf(id)
    if (bytes.length < 2) continue
    out.clear()
    coder.begin()
    coder.merge(bytes, 0, bytes.length, out)
    if (out.length !== 1 || out.ids[0] !== id) indirect.push(id)
  }
  return indirect
}

function write(header: VocabularyHeader, { tokens }: TokenizerParts, { left, listed }: MergeRule): Uint8Array {
  // ASCII only, so that no decoder is needed.
  const json = JSON.stringify(header).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  const size = tokens.length
  const textBytes = tokens.reduce((sum, bytes) => sum + bytes.length, 0)
  const file = new Uint8Array(HEAD_BYTES + json.length + 2 * size + textBytes + 4 * listed.length)
  const view = new DataView(file.buffer)
  for (const [i, value] of [MAGIC, json.length, size, listed.length].entries()) view.setUint32(i * 4, value, true)
  let at = HEAD_BYTES
  for (let i = 0; i < json.length; i++) file[at++] = json.charCodeAt(i)
  for (const bytes of tokens) file[at++] = bytes.length
  file.set(left, at)
  at += size
  for (const bytes of tokens) {
    file.set(bytes, at)
    at += bytes.length
  }
  for (const merge of listed) {
    view.setUint32(at, merge, true)
    at += 4
  }
  if (size > MAX_IDS)
    throw new VocabularyError(`the vocabulary has ${size} ids, more than the ${MAX_IDS} this tokenizer can hold`)
  return file
}
