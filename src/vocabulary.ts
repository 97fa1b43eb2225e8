/** Opens compiled vocabularies, each once at the start, so that no request waits for one. */
import { compileTemplate, utf8 } from './chat-template.ts'
import type { Config, PoolSettings } from './config.ts'
import { PieceTokenizer } from './core/tokens/piece-tokenizer.ts'
import type { ChatTemplate, ExactTokenizer } from './core/tokens/prompt-analyzer.ts'
import { Vocabulary, VocabularyError, type VocabularyHeader, type VocabularySource } from './core/tokens/vocabulary.ts'

/** Tokenizer and chat template of a model. */
export interface OpenVocabulary {
  readonly tokenizer: ExactTokenizer
  /** null: the vocabulary has none, so chats are measured in bytes. */
  readonly template: ChatTemplate | null
  readonly header: VocabularyHeader
  /** Number of ids, including added tokens and gaps. */
  readonly size: number
}

const encodeUtf8 = (text: string, into: Uint8Array): number => utf8.encodeInto(text, into).written

/** Reads a compiled vocabulary, gzipped or not. Rejects with a VocabularyError that names the next step. */
export async function openVocabulary(file: Uint8Array): Promise<OpenVocabulary> {
  const vocabulary = new Vocabulary(isGzip(file) ? await inflate(file) : file)
  return {
    tokenizer: new PieceTokenizer({ vocabulary, encodeUtf8 }),
    template: openTemplate(vocabulary.header),
    header: vocabulary.header,
    size: vocabulary.size,
  }
}

/** Names of the vocabularies that the pools use. */
export function tokenizersOf({ clusters }: Pick<Config, 'clusters'>): string[] {
  return clusters.flatMap(({ pools }) => pools.map((pool) => pool.tokenizer)).filter((name) => name !== null)
}

/** Opens every named vocabulary once. Rejects with a VocabularyError that names the missing or invalid one. */
export async function openVocabularies(
  names: readonly string[],
  source: VocabularySource,
): Promise<ReadonlyMap<string, OpenVocabulary>> {
  const opened = new Map<string, OpenVocabulary>()
  for (const name of new Set(names)) {
    try {
      opened.set(name, await openVocabulary(await source(name)))
    } catch (error) {
      throw new VocabularyError(`vocabulary '${name}': ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return opened
}

/** Returns the vocabulary of a pool among those that are open. null: it has none. */
export const vocabularyIn =
  (vocabularies: ReadonlyMap<string, OpenVocabulary>) =>
  ({ tokenizer }: Pick<PoolSettings, 'tokenizer'>): OpenVocabulary | null =>
    tokenizer === null ? null : (vocabularies.get(tokenizer) ?? null)

function openTemplate({ template, specials }: VocabularyHeader): ChatTemplate | null {
  if (template === null) return null
  try {
    return compileTemplate(template, specials)
  } catch (error) {
    throw new VocabularyError(
      `its chat template cannot be parsed (${error instanceof Error ? error.message : String(error)}): compile ` +
        'it with --no-template',
    )
  }
}

const isGzip = (file: Uint8Array): boolean => file[0] === 0x1f && file[1] === 0x8b

async function inflate(file: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([file as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream('gzip'))
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer())
  } catch {
    throw new VocabularyError('the file is truncated or damaged: compile it again')
  }
}
