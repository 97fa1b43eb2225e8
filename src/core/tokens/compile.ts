/** Compiles tokenizer.json to the compact vocabulary. Rejects settings that this tokenizer cannot reproduce exactly. */
import { isJsonObject } from '../json.ts'
import { isOfCharacters, readCharacters } from './compile-characters.ts'
import { IdBuffer } from './id-buffer.ts'
import { coderOf, stepsOf } from './piece-tokenizer.ts'
import { normalizerOf } from './normalize.ts'
import { unicodeClasses } from './unicode-table.ts'
import {
  countIds,
  readAdded,
  readPostProcessor,
  readVocab,
  refuse,
  show,
  type Fields,
  type TokenizerParts,
} from './tokenizer-json.ts'
import {
  HEAD_BYTES,
  MAGIC,
  MAX_IDS,
  Vocabulary,
  VocabularyError,
  type AddedToken,
  type VocabularyHeader,
} from './vocabulary.ts'
import { patterns, type PreTokenizer } from './pre-tokenize.ts'

/** Throws a VocabularyError that names the first unsupported setting. */
export function readTokenizerJson(json: unknown): TokenizerParts {
  if (!isJsonObject(json) || !isJsonObject(json['model']))
    throw new VocabularyError('not a tokenizer.json: it has no `model`')
  const model = json['model']
  if (isOfCharacters(model)) return readCharacters(json, model)
  checkModel(model)
  const added = readAdded(json['added_tokens'])
  const vocab = readVocab(model['vocab'])
  const tokens = tokenBytes(vocab, added)
  return {
    preTokenizer: readPreTokenizer(json['pre_tokenizer']),
    nfc: readNormalizer(json['normalizer']),
    ignoreMerges: model['ignore_merges'] === true,
    tokens,
    merges: readMerges(model['merges'], vocab),
    added,
    ...readPostProcessor(json['post_processor']),
  }
}

function checkModel(model: Fields): void {
  if (model['type'] !== 'BPE' && model['type'] !== undefined) refuse(`the model is ${show(model['type'])}, not BPE`)
  for (const key of ['continuing_subword_prefix', 'end_of_word_suffix', 'dropout', 'byte_fallback'] as const) {
    const value = model[key]
    if (value !== undefined && value !== null && value !== '' && value !== false && value !== 0)
      refuse(`\`model.${key}\` is ${show(value)}`)
  }
}

function readNormalizer(value: unknown): boolean {
  if (value === undefined || value === null) return false
  if (isJsonObject(value) && value['type'] === 'NFC') return true
  if (isJsonObject(value) && value['type'] === 'Sequence' && Array.isArray(value['normalizers'])) {
    return value['normalizers'].map(readNormalizer).includes(true)
  }
  return refuse(`the normalizer is ${show(value)}, neither NFC nor none`)
}

function readPreTokenizer(value: unknown): PreTokenizer {
  const steps =
    isJsonObject(value) && value['type'] === 'Sequence' && Array.isArray(value['pretokenizers'])
      ? value['pretokenizers']
      : [value]
  const last: unknown = steps.at(-1)
  if (!isJsonObject(last) || last['type'] !== 'ByteLevel' || last['add_prefix_space'] === true)
    return refuse(`the pre-tokenizer is ${show(value)}`)
  const ownRegex = last['use_regex'] !== false
  if (steps.length === 1 && ownRegex) return 'gpt2'
  const split: unknown = steps[0]
  if (steps.length !== 2 || ownRegex || !isJsonObject(split) || split['type'] !== 'Split')
    return refuse(`the pre-tokenizer is ${show(value)}`)
  const regex = isJsonObject(split['pattern']) ? split['pattern']['Regex'] : undefined
  const known = typeof regex === 'string' && Object.hasOwn(patterns, regex) ? patterns[regex] : undefined
  // With this pattern every character belongs to a match, so removing text between matches changes nothing.
  const isolated = split['invert'] === true ? split['behavior'] === 'Removed' : split['behavior'] === 'Isolated'
  if (known === undefined || !isolated) return refuse(`the pre-tokenizer splits by ${show(split)}`)
  return known
}

/** Inverse of GPT-2's mapping of bytes to printable characters: character → byte. */
const byteOfChar: ReadonlyMap<string, number> = disguise()

function disguise(): Map<string, number> {
  const map = new Map<string, number>()
  let shifted = 0x100
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
    map.set(String.fromCharCode(printable ? byte : shifted++), byte)
  }
  return map
}

function tokenBytes(vocab: ReadonlyMap<string, number>, added: readonly AddedToken[]): Uint8Array[] {
  const tokens = Array.from({ length: countIds(vocab.values(), added) }, () => new Uint8Array(0))
  const addedIds = new Set(added.map(({ id }) => id))
  for (const [token, id] of vocab) {
    if (addedIds.has(id)) continue
    const bytes = Uint8Array.from(
      token,
      (char) => byteOfChar.get(char) ?? refuse(`the token ${show(token)} is not made of bytes`),
    )
    if (bytes.length > 254) refuse(`the token with id ${id} has ${bytes.length} bytes, more than 254`)
    tokens[id] = bytes
  }
  for (const [char, byte] of byteOfChar) if (!vocab.has(char)) refuse(`the byte ${byte} has no token`)
  return tokens
}

function readMerges(value: unknown, vocab: ReadonlyMap<string, number>): TokenizerParts['merges'] {
  if (!Array.isArray(value)) return refuse('`model.merges` is no list')
  return value.map((merge: unknown) => {
    const pair: unknown = typeof merge === 'string' ? merge.split(' ') : merge
    if (!Array.isArray(pair) || pair.length !== 2 || !pair.every((half) => typeof half === 'string'))
      return refuse(`the merge ${show(merge)} is no pair`)
    const [left, right] = pair as [string, string]
    const leftId = vocab.get(left)
    const result = vocab.get(left + right)
    if (leftId === undefined || result === undefined || !vocab.has(right))
      return refuse(`the merge ${show(merge)} is of unknown tokens`)
    return { result, leftId, leftLength: left.length }
  })
}

/* Parts of tokenizer_config.json that a chat template needs. */

const specialNames = [
  'bos_token',
  'eos_token',
  'unk_token',
  'pad_token',
  'sep_token',
  'cls_token',
  'mask_token',
] as const

/**
 * Template and special tokens of a parsed tokenizer_config.json (or special_tokens_map.json). Throws a
 * VocabularyError.
 */
export function readTokenizerConfig(config: unknown): {
  template: string | null
  specials: Readonly<Record<string, string>>
} {
  if (!isJsonObject(config)) throw new VocabularyError('tokenizer_config.json is no object')
  const specials: Record<string, string> = {}
  for (const name of specialNames) {
    const value = config[name]
    const text = isJsonObject(value) ? value['content'] : value
    if (typeof text === 'string') specials[name] = text
  }
  return { template: readTemplate(config['chat_template']), specials }
}

/** The single template, or the one named `default`: vLLM also uses another only on request. */
function readTemplate(value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'string') return value
  const named = Array.isArray(value)
    ? value.find((entry) => isJsonObject(entry) && entry['name'] === 'default')
    : undefined
  if (isJsonObject(named) && typeof named['template'] === 'string') return named['template']
  throw new VocabularyError(
    '`chat_template` is neither a text nor a list with one named `default`: give the right one with --template FILE',
  )
}

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
  const normalize = normalizerOf(stepsOf(parts))
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
export const latin1 = (bytes: Uint8Array): string => String.fromCharCode(...bytes)

/** Tokens that their own bytes do not give, so they must not be matched as a whole. */
function indirectTokens(file: Uint8Array): number[] {
  const vocabulary = new Vocabulary(file)
  const coder = coderOf(vocabulary)
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
