import { readFileSync } from 'node:fs'
import { PieceTokenizer } from '../../../src/core/tokens/piece-tokenizer.ts'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { IdBuffer } from '../../../src/core/tokens/id-buffer.ts'
import { Vocabulary } from '../../../src/core/tokens/vocabulary.ts'
import { encodeUtf8 } from './support.ts'

export interface TokenizerJson {
  added_tokens: { id: number; content: string }[]
  normalizer: unknown
  pre_tokenizer: unknown
  post_processor: unknown
  model: { vocab: Record<string, number>; merges: [string, string][]; ignore_merges: boolean } & Record<string, unknown>
}

interface Settings extends Partial<
  Pick<TokenizerJson, 'added_tokens' | 'normalizer' | 'pre_tokenizer' | 'post_processor'>
> {
  ignore_merges?: boolean
  derive?: 'all_merges' | 'reversed_ids'
}

const read = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../vectors/tokenizers/${name}.json`, import.meta.url), 'utf8'))

/**
 * One trained vocabulary; families differ in splitting and merging. Ids were computed with Hugging Face's Rust
 * tokenizers.
 */
export const { texts, families } = read('families') as {
  texts: string[]
  families: Record<string, { settings: Settings; ids: number[][] }>
}

/** The tokenizer.json of a family. */
export function familyJson(name: string): TokenizerJson {
  const json = read('base') as TokenizerJson
  const { derive, ignore_merges: ignoreMerges, ...rest } = families[name]?.settings ?? {}
  Object.assign(json, rest)
  if (ignoreMerges === true) json.model.ignore_merges = true
  if (derive === 'all_merges') json.model.merges = allMerges(json)
  if (derive === 'reversed_ids') json.model.vocab = reversedIds(json)
  return json
}

export const openTokenizer = (json: unknown): PieceTokenizer =>
  new PieceTokenizer({
    vocabulary: new Vocabulary(compileVocabulary({ tokenizer: json, template: null, specials: {} })),
    encodeUtf8,
  })

export function idsOf(tokenizer: PieceTokenizer, text: string, addSpecial = false): number[] {
  const out = new IdBuffer()
  tokenizer.encode(text, addSpecial, out)
  return [...out.ids.subarray(0, out.length)]
}

/** Every split of every token, in the format of a conversion from tiktoken ranks. */
function allMerges({ model: { vocab }, added_tokens: added }: TokenizerJson): [string, string][] {
  const special = new Set(added.map(({ content }) => content))
  const inOrder = Object.entries(vocab).sort(([, a], [, b]) => a - b)
  return inOrder.flatMap(([token]) => {
    if (special.has(token)) return []
    const splits = Array.from({ length: token.length - 1 }, (_, i): [string, string] => [
      token.slice(0, i + 1),
      token.slice(i + 1),
    ])
    const known = splits.filter(([left, right]) => Object.hasOwn(vocab, left) && Object.hasOwn(vocab, right))
    return known.sort(([a], [b]) => (vocab[a] ?? 0) - (vocab[b] ?? 0))
  })
}

function reversedIds({ model: { vocab }, added_tokens: added }: TokenizerJson): Record<string, number> {
  const size = Object.keys(vocab).length
  return Object.fromEntries(
    Object.entries(vocab).map(([token, id]) => [token, id < added.length ? id : size - 1 - (id - added.length)]),
  )
}
