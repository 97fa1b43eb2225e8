/** Reads Hugging Face's tokenizer.json, strictly: every setting that changes ids is either understood or refused. */
import { patterns, type PreTokenizer } from './pre-tokenize.ts'
import { MAX_IDS, VocabularyError, type AddedToken } from './vocabulary.ts'

export interface TokenizerParts {
  readonly preTokenizer: PreTokenizer
  readonly nfc: boolean
  readonly ignoreMerges: boolean
  /** Bytes by id; empty for added tokens and gaps. */
  readonly tokens: readonly Uint8Array[]
  /** In order of rank. */
  readonly merges: readonly { readonly result: number; readonly leftId: number; readonly leftLength: number }[]
  readonly added: readonly AddedToken[]
  readonly prefix: readonly number[]
  readonly suffix: readonly number[]
}

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isId = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < MAX_IDS
const show = (value: unknown): string => (JSON.stringify(value) ?? String(value)).slice(0, 200)

function refuse(what: string): never {
  throw new VocabularyError(
    `${what}. Only byte-level BPE can be followed exactly: leave \`tokenizer\` out for this pool, and prompts are measured in bytes`,
  )
}

/** Throws a VocabularyError naming the first setting that does not fit. */
export function readTokenizerJson(json: unknown): TokenizerParts {
  if (!isFields(json) || !isFields(json['model'])) throw new VocabularyError('not a tokenizer.json: it has no `model`')
  const model = json['model']
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
  if (isFields(value) && value['type'] === 'NFC') return true
  if (isFields(value) && value['type'] === 'Sequence' && Array.isArray(value['normalizers'])) {
    return value['normalizers'].map(readNormalizer).includes(true)
  }
  return refuse(`the normalizer is ${show(value)}, neither NFC nor none`)
}

function readPreTokenizer(value: unknown): PreTokenizer {
  const steps =
    isFields(value) && value['type'] === 'Sequence' && Array.isArray(value['pretokenizers'])
      ? value['pretokenizers']
      : [value]
  const last: unknown = steps.at(-1)
  if (!isFields(last) || last['type'] !== 'ByteLevel' || last['add_prefix_space'] === true)
    return refuse(`the pre-tokenizer is ${show(value)}`)
  const ownRegex = last['use_regex'] !== false
  if (steps.length === 1 && ownRegex) return 'gpt2'
  const split: unknown = steps[0]
  if (steps.length !== 2 || ownRegex || !isFields(split) || split['type'] !== 'Split')
    return refuse(`the pre-tokenizer is ${show(value)}`)
  const regex = isFields(split['pattern']) ? split['pattern']['Regex'] : undefined
  const known = typeof regex === 'string' && Object.hasOwn(patterns, regex) ? patterns[regex] : undefined
  // With this pattern every character is in a match, so removing what lies between matches changes nothing.
  const isolated = split['invert'] === true ? split['behavior'] === 'Removed' : split['behavior'] === 'Isolated'
  if (known === undefined || !isolated) return refuse(`the pre-tokenizer splits by ${show(split)}`)
  return known
}

function readAdded(value: unknown): AddedToken[] {
  if (!Array.isArray(value)) return []
  return value.map((token: unknown) => {
    if (!isFields(token) || typeof token['content'] !== 'string' || !isId(token['id']))
      return refuse(`an added token is ${show(token)}`)
    if (token['single_word'] === true) refuse(`the added token ${show(token['content'])} matches whole words only`)
    return {
      id: token['id'],
      text: token['content'],
      left: token['lstrip'] === true,
      right: token['rstrip'] === true,
      normalized: token['normalized'] === true,
    }
  })
}

function readVocab(value: unknown): ReadonlyMap<string, number> {
  if (!isFields(value)) return refuse('`model.vocab` is no object')
  const entries = Object.entries(value)
  for (const [token, id] of entries) {
    if (!isId(id)) refuse(`the id of ${show(token)} is ${show(id)}, not in 0..${MAX_IDS - 1}`)
  }
  return new Map(entries as [string, number][])
}

/** GPT-2's disguise of bytes as printable characters, undone: character → byte. */
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
  const most = Math.max(...added.map(({ id }) => id), ...maxima(vocab))
  const tokens = Array.from({ length: most + 1 }, () => new Uint8Array(0))
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

function maxima(vocab: ReadonlyMap<string, number>): number[] {
  let most = 0
  for (const id of vocab.values()) if (id > most) most = id
  return [most]
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

function readPostProcessor(value: unknown): { prefix: number[]; suffix: number[] } {
  const none = { prefix: [], suffix: [] }
  if (value === undefined || value === null) return none
  if (!isFields(value)) return refuse(`the post-processor is ${show(value)}`)
  if (value['type'] === 'ByteLevel') return none
  if (value['type'] === 'Sequence' && Array.isArray(value['processors'])) {
    const found = value['processors'].map(readPostProcessor)
    return { prefix: found.flatMap(({ prefix }) => prefix), suffix: found.flatMap(({ suffix }) => suffix) }
  }
  if (value['type'] === 'TemplateProcessing' && Array.isArray(value['single']))
    return readSingle(value['single'], value['special_tokens'])
  return refuse(`the post-processor is ${show(value)}`)
}

function readSingle(single: readonly unknown[], specials: unknown): { prefix: number[]; suffix: number[] } {
  const sides = { prefix: [] as number[], suffix: [] as number[] }
  let side: keyof typeof sides = 'prefix'
  for (const step of single) {
    if (isFields(step) && isFields(step['Sequence'])) side = 'suffix'
    else if (isFields(step) && isFields(step['SpecialToken']) && isFields(specials)) {
      const special = specials[String(step['SpecialToken']['id'])]
      if (!isFields(special) || !Array.isArray(special['ids']) || !special['ids'].every(isId))
        return refuse(`the post-processor names ${show(step)}, which it does not define`)
      sides[side].push(...(special['ids'] as number[]))
    } else return refuse(`the post-processor has the step ${show(step)}`)
  }
  return sides
}
