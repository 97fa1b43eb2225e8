/** Reads tokenizer.json of vocabularies whose tokens are made of characters: BPE with byte fallback, and Unigram. */
import { isJsonObject, type JsonObject } from '../json.ts'
import { MARK, type CharacterRules, type WordRule } from './characters.ts'
import { normalizerOf, type NormalStep } from './normalize.ts'
import {
  countIds,
  isId,
  readAdded,
  readPostProcessor,
  readVocab,
  refuse,
  show,
  type TokenizerParts,
} from './tokenizer-json-parts.ts'
import { utf8Of } from './utf8.ts'

/** Whether `model` of tokenizer.json is of this kind. */
export const isCharacterModel = (model: JsonObject): boolean =>
  model['type'] === 'Unigram' || (model['byte_fallback'] === true && (model['type'] ?? 'BPE') === 'BPE')

const WHOLE: WordRule = { kind: 'whole' }
/** Longest token, bytes. */
const MAX_TOKEN_BYTES = 254

export function readCharacterVocabulary(json: JsonObject, model: JsonObject): TokenizerParts {
  const isUnigram = model['type'] === 'Unigram'
  const steps = readSteps(json['normalizer'])
  try {
    normalizerOf(steps)
  } catch (error) {
    refuse(`the normalizer cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
  const words = readWords(json['pre_tokenizer'], steps)
  const added = readAdded(json['added_tokens'])
  const vocabulary = isUnigram ? readPieces(model) : readCharacterBpe(model)
  const { ids, bytes, unknown } = vocabulary
  if (isUnigram && (words.kind === 'whole' || (words.kind === 'metaspace' && !words.split)))
    refuse('the model is Unigram without a division into words')
  return {
    preTokenizer: 'gpt2',
    nfc: false,
    ignoreMerges: false,
    characters: { model: isUnigram ? 'unigram' : 'bpe', steps, words, bytes, unknown },
    tokens: tokensOf(ids, countIds(ids.values(), added), new Set(isUnigram ? [] : (bytes ?? []))),
    merges: vocabulary.merges,
    ...(vocabulary.scores && { scores: padded(vocabulary.scores, countIds(ids.values(), added)) }),
    added,
    ...readPostProcessor(json['post_processor']),
  }
}

type CharacterVocabulary = Pick<TokenizerParts, 'merges' | 'scores'> &
  Pick<CharacterRules, 'bytes' | 'unknown'> & { readonly ids: ReadonlyMap<string, number> }

/** Scores for all ids; those of added tokens alone are never used. */
function padded(scores: Float64Array, size: number): Float64Array {
  const all = new Float64Array(size)
  all.set(scores)
  return all
}

function tokensOf(ids: ReadonlyMap<string, number>, size: number, without: ReadonlySet<number>): Uint8Array[] {
  const tokens = Array.from({ length: size }, (): Uint8Array => new Uint8Array(0))
  for (const [token, id] of ids) {
    if (without.has(id)) continue
    const bytes = utf8Of(token)
    if (bytes.length > MAX_TOKEN_BYTES)
      refuse(`the token with id ${id} has ${bytes.length} bytes, more than ${MAX_TOKEN_BYTES}`)
    tokens[id] = bytes
  }
  return tokens
}

function readCharacterBpe(model: JsonObject): CharacterVocabulary {
  for (const key of ['continuing_subword_prefix', 'end_of_word_suffix', 'dropout', 'ignore_merges'] as const) {
    const value = model[key]
    if (value !== undefined && value !== null && value !== '' && value !== false && value !== 0)
      refuse(`\`model.${key}\` is ${show(value)}`)
  }
  const ids = readVocab(model['vocab'])
  const bytes = readBytes(ids)
  return { ids, bytes, unknown: -1, merges: readCharacterMerges(model['merges'], ids, new Set(bytes)) }
}

function readCharacterMerges(
  value: unknown,
  ids: ReadonlyMap<string, number>,
  bytes: ReadonlySet<number>,
): TokenizerParts['merges'] {
  if (!Array.isArray(value)) return refuse('`model.merges` is not a list')
  return value.map((merge: unknown) => {
    const pair: unknown = typeof merge === 'string' ? merge.split(' ') : merge
    if (!Array.isArray(pair) || pair.length !== 2 || !pair.every((half) => typeof half === 'string'))
      return refuse(`the merge ${show(merge)} is not a pair`)
    const [left, right] = pair as [string, string]
    const leftId = ids.get(left)
    const rightId = ids.get(right)
    const result = ids.get(left + right)
    if (leftId === undefined || rightId === undefined || result === undefined)
      return refuse(`the merge ${show(merge)} is of unknown tokens`)
    if (bytes.has(leftId) || bytes.has(rightId) || bytes.has(result))
      return refuse(`the merge ${show(merge)} is of tokens of single bytes`)
    return { result, leftId, leftLength: utf8Of(left).length }
  })
}

function readPieces(model: JsonObject): CharacterVocabulary {
  const { vocab, unk_id: unknown } = model
  if (!Array.isArray(vocab)) return refuse('`model.vocab` is not a list')
  if (!isId(unknown) || unknown >= vocab.length) return refuse(`\`model.unk_id\` is ${show(unknown)}`)
  const ids = new Map<string, number>()
  const scores = new Float64Array(vocab.length)
  for (const [id, entry] of vocab.entries()) {
    const [token, score] = Array.isArray(entry) ? (entry as unknown[]) : []
    if (typeof token !== 'string' || typeof score !== 'number' || !isId(id))
      return refuse(`the token with id ${id} is ${show(entry)}`)
    ids.set(token, id)
    scores[id] = score
  }
  return { ids, scores, bytes: model['byte_fallback'] === true ? readBytes(ids) : null, unknown, merges: [] }
}

/** Ids of the tokens of single bytes. With all of them, no text is unknown. */
function readBytes(ids: ReadonlyMap<string, number>): number[] {
  return Array.from({ length: 256 }, (_, byte) => {
    const name = `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`
    return ids.get(name) ?? refuse(`the byte ${byte} has no token ${name}`)
  })
}

function readSteps(value: unknown): NormalStep[] {
  if (value === undefined || value === null) return []
  if (!isJsonObject(value)) return refuse(`the normalizer is ${show(value)}`)
  if (value['type'] === 'Sequence' && Array.isArray(value['normalizers']))
    return value['normalizers'].flatMap(readSteps)
  const step = readStep(value)
  return step === null ? refuse(`the normalizer is ${show(value)}`) : [step]
}

function readStep(value: JsonObject): NormalStep | null {
  const { prepend, precompiled_charsmap: map } = value
  switch (value['type']) {
    case 'NFC':
      return { kind: 'nfc' }
    case 'NFKC':
      return { kind: 'nfkc' }
    case 'Prepend':
      return typeof prepend === 'string' ? { kind: 'prepend', text: prepend } : null
    case 'Strip':
      return { kind: 'strip', left: value['strip_left'] === true, right: value['strip_right'] === true }
    case 'Precompiled':
      return typeof map === 'string' ? { kind: 'charsmap', map } : null
    case 'Replace':
      return readReplace(value)
    default:
      return null
  }
}

function readReplace({ pattern, content }: JsonObject): NormalStep | null {
  if (!isJsonObject(pattern) || typeof content !== 'string') return null
  const { String: text, Regex: regex } = pattern
  if (typeof text === 'string' && text !== '') return { kind: 'replace', from: text, to: content }
  return regex === ' {2,}' ? { kind: 'blanks', to: content } : null
}

function readWords(value: unknown, steps: readonly NormalStep[]): WordRule {
  if (value === undefined || value === null) return WHOLE
  const refused = (): never => refuse(`the pre-tokenizer is ${show(value)}`)
  if (!isJsonObject(value)) return refused()
  if (value['type'] === 'Sequence' && Array.isArray(value['pretokenizers'])) {
    const [first, second, ...more] = value['pretokenizers'] as readonly unknown[]
    if (second === undefined) return readWords(first, steps)
    const words = isJsonObject(second) && second['type'] === 'Metaspace' ? readMetaspace(second) : null
    const isWords = isJsonObject(first) && first['type'] === 'WhitespaceSplit' && more.length === 0
    // Without a mark at each word the words would not stay apart.
    if (!isWords || words?.kind !== 'metaspace' || words.prefix !== 'always' || !words.split) return refused()
    return { kind: 'words' }
  }
  if (value['type'] === 'Metaspace') return readMetaspace(value) ?? refused()
  return value['type'] === 'Split' && findsNothing(value['pattern'], steps) ? WHOLE : refused()
}

/** Gemma splits at blanks, which its normalizer has replaced before. */
function findsNothing(pattern: unknown, steps: readonly NormalStep[]): boolean {
  const last = steps.at(-1)
  return isJsonObject(pattern) && pattern['String'] === ' ' && last?.kind === 'replace' && last.from === ' '
}

function readMetaspace(value: JsonObject): WordRule | null {
  if (value['replacement'] !== MARK) return null
  const named = value['prepend_scheme'] ?? (value['add_prefix_space'] === false ? 'never' : 'always')
  const prefix = (['always', 'first', 'never'] as const).find((scheme) => scheme === named)
  return prefix === undefined ? null : { kind: 'metaspace', prefix, split: value['split'] !== false }
}
