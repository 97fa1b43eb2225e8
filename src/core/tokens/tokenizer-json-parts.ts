/** Parts of Hugging Face's tokenizer.json that all kinds of vocabularies share. */
import { isJsonObject } from '../json.ts'
import type { CharacterRules } from './characters.ts'
import type { PreTokenizer } from './pre-tokenize.ts'
import { MAX_IDS, VocabularyError, type AddedToken } from './vocabulary.ts'

export interface TokenizerParts {
  readonly preTokenizer: PreTokenizer
  /** Absent: tokens are made of bytes. */
  readonly characters?: CharacterRules
  /** Scores by id, of Unigram. */
  readonly scores?: Float64Array
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

export const isId = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < MAX_IDS
export const show = (value: unknown): string => (JSON.stringify(value) ?? String(value)).slice(0, 200)

export function refuse(what: string): never {
  throw new VocabularyError(
    `${what}, which is not supported. Leave \`tokenizer\` out for this pool; prompts are then measured in bytes`,
  )
}

export function readAdded(value: unknown): AddedToken[] {
  if (!Array.isArray(value)) return []
  return value.map((token: unknown) => {
    if (!isJsonObject(token) || typeof token['content'] !== 'string' || !isId(token['id']))
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

export function readVocab(value: unknown): ReadonlyMap<string, number> {
  if (!isJsonObject(value)) return refuse('`model.vocab` is not an object')
  const entries = Object.entries(value)
  for (const [token, id] of entries) {
    if (!isId(id)) refuse(`the id of ${show(token)} is ${show(id)}, not in 0..${MAX_IDS - 1}`)
  }
  return new Map(entries as [string, number][])
}

export function readPostProcessor(value: unknown): { prefix: number[]; suffix: number[] } {
  const none = { prefix: [], suffix: [] }
  if (value === undefined || value === null) return none
  if (!isJsonObject(value)) return refuse(`the post-processor is ${show(value)}`)
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
    if (isJsonObject(step) && isJsonObject(step['Sequence'])) side = 'suffix'
    else if (isJsonObject(step) && isJsonObject(step['SpecialToken']) && isJsonObject(specials)) {
      const special = specials[String(step['SpecialToken']['id'])]
      if (!isJsonObject(special) || !Array.isArray(special['ids']) || !special['ids'].every(isId))
        return refuse(`the post-processor names ${show(step)}, which it does not define`)
      sides[side].push(...(special['ids'] as number[]))
    } else return refuse(`the post-processor has the step ${show(step)}`)
  }
  return sides
}

/** Number of ids: one more than the highest. */
export function countIds(ids: Iterable<number>, added: readonly AddedToken[]): number {
  let highest = -1
  for (const id of ids) if (id > highest) highest = id
  for (const { id } of added) if (id > highest) highest = id
  return highest + 1
}
