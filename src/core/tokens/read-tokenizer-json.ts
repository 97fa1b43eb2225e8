/** Reads Hugging Face's tokenizer.json strictly: each setting that changes ids is either supported or rejected. */
import { isJsonObject, type JsonObject } from '../json.ts'
import { isCharacterModel, readCharacterVocabulary } from './read-character-vocabulary.ts'
import { patterns, type PreTokenizer } from './pre-tokenize.ts'
import {
  countIds,
  readAdded,
  readPostProcessor,
  readVocab,
  refuse,
  show,
  type TokenizerParts,
} from './tokenizer-json-parts.ts'
import { type AddedToken, VocabularyError } from './vocabulary.ts'

/** Throws a VocabularyError that names the first unsupported setting. */
export function readTokenizerJson(json: unknown): TokenizerParts {
  if (!isJsonObject(json) || !isJsonObject(json['model']))
    throw new VocabularyError('not a tokenizer.json: it has no `model`')
  const model = json['model']
  if (isCharacterModel(model)) return readCharacterVocabulary(json, model)
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

function checkModel(model: JsonObject): void {
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
const byteOfChar: ReadonlyMap<string, number> = gpt2ByteMap()

function gpt2ByteMap(): Map<string, number> {
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
  if (!Array.isArray(value)) return refuse('`model.merges` is not a list')
  return value.map((merge: unknown) => {
    const pair: unknown = typeof merge === 'string' ? merge.split(' ') : merge
    if (!Array.isArray(pair) || pair.length !== 2 || !pair.every((half) => typeof half === 'string'))
      return refuse(`the merge ${show(merge)} is not a pair`)
    const [left, right] = pair as [string, string]
    const leftId = vocab.get(left)
    const result = vocab.get(left + right)
    if (leftId === undefined || result === undefined || !vocab.has(right))
      return refuse(`the merge ${show(merge)} is of unknown tokens`)
    return { result, leftId, leftLength: left.length }
  })
}
