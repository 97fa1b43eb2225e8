/** tokenizer.json → the compact vocabulary. Refuses whatever this tokenizer could not follow exactly. */
import { IdBuffer } from './id-buffer.ts'
import { BpeMerger } from './bpe-merge.ts'
import { readTokenizerJson, type TokenizerParts } from './tokenizer-json.ts'
import { unicodeClasses } from './unicode.ts'
import { HEAD_BYTES, MAGIC, MAX_IDS, Vocabulary, VocabularyError, type VocabularyHeader } from './vocabulary.ts'

export interface CompileInput {
  /** Parsed tokenizer.json. */
  readonly tokenizer: unknown
  /** Chat template of the served model; null: chats will be measured in bytes. */
  readonly template: string | null
  /** `bos_token` and the like from tokenizer_config.json. */
  readonly specials: Readonly<Record<string, string>>
}

type MergeRule = Pick<VocabularyHeader, 'merges'> & { readonly left: Uint8Array; readonly listed: Uint32Array }

/** The compiled file. Throws a VocabularyError that says what does not fit. */
export function compileVocabulary(input: CompileInput): Uint8Array {
  const parts = readTokenizerJson(input.tokenizer)
  const rule = mergeRule(parts)
  const header: VocabularyHeader = {
    preTokenizer: parts.preTokenizer,
    classes: unicodeClasses,
    nfc: parts.nfc,
    ignoreMerges: parts.ignoreMerges,
    merges: rule.merges,
    // They are looked for in the normalized text, so Hugging Face's library normalizes them too.
    added: parts.nfc
      ? parts.added.map((token) => (token.normalized ? { ...token, text: token.text.normalize('NFC') } : token))
      : parts.added,
    prefix: parts.prefix,
    suffix: parts.suffix,
    indirect: [],
    template: input.template,
    specials: input.specials,
  }
  const plain = write(header, parts, rule)
  return header.ignoreMerges ? plain : write({ ...header, indirect: indirectTokens(plain) }, parts, rule)
}

/** Does each token have one merge, in id order? All its splits? Neither: the merges are listed. */
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

/** Is every split of every token into two tokens a merge? */
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
export const latin1 = (bytes: Uint8Array): string => String.fromCharCode(...bytes)

/** Tokens that merging does not make of their own bytes: they must not be taken as a whole. */
function indirectTokens(file: Uint8Array): number[] {
  const vocabulary = new Vocabulary(file)
  const merger = new BpeMerger(vocabulary)
  const out = new IdBuffer()
  const indirect: number[] = []
  for (let id = 0; id < vocabulary.size; id++) {
    const bytes = vocabulary.bytesOf(id)
    if (bytes.length < 2) continue
    out.clear()
    merger.begin()
    merger.merge(bytes, 0, bytes.length, out)
    if (out.length !== 1) indirect.push(id)
  }
  return indirect
}

function write(header: VocabularyHeader, { tokens }: TokenizerParts, { left, listed }: MergeRule): Uint8Array {
  // ASCII only, so that reading it needs no decoder.
  const json = JSON.stringify(header).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  const size = tokens.length
  const tokenBytes = tokens.reduce((sum, bytes) => sum + bytes.length, 0)
  const file = new Uint8Array(HEAD_BYTES + json.length + 2 * size + tokenBytes + 4 * listed.length)
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
