// Imported, because workerd reads no files.
import json from '../../vectors/tokenizers/characters.json' with { type: 'json' }

/** Vocabularies of characters; families differ in normalizing, dividing and merging. */
interface RecordedTokens {
  texts: string[]
  vocab: string[]
  merges: Record<string, [string, string][]>
  pieces: [string, number][]
  charsmap: string
  families: Record<string, { settings: CharacterJson; ids: number[][] }>
}

export interface CharacterJson {
  added_tokens: Record<string, unknown>[]
  normalizer: unknown
  pre_tokenizer: unknown
  post_processor: unknown
  model: Record<string, unknown>
}

export const recorded = json as unknown as RecordedTokens

/** The tokenizer.json of a family: names of shared parts are replaced by the parts. */
export function characterJson(name: string): CharacterJson {
  const { settings } = recorded.families[name]!
  const filled = JSON.parse(JSON.stringify(settings).replaceAll('"CHARSMAP"', JSON.stringify(recorded.charsmap)))
  const { model } = filled as CharacterJson
  if (model['type'] === 'BPE') {
    model['vocab'] = Object.fromEntries(recorded.vocab.map((token, id) => [token, id]))
    model['merges'] = recorded.merges[String(model['merges']).toLowerCase()]
  } else model['vocab'] = model['vocab'] === 'PIECES' ? recorded.pieces : [...recorded.pieces, ...bytePieces()]
  // Each caller may change its own.
  return structuredClone({ ...filled, decoder: null }) as CharacterJson
}

const bytePieces = (): [string, number][] =>
  Array.from({ length: 256 }, (_, byte) => [`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`, -20])
