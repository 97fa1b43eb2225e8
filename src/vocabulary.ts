/** Opens compiled vocabularies: once each, at the start; no request waits for one. */
import type { Config } from './config.ts'
import { BpeTokenizer } from './core/tokens/bpe-tokenizer.ts'
import type { ChatTemplate, ExactTokenizer } from './core/tokens/prompt-analyzer.ts'
import { Vocabulary, VocabularyError, type VocabularyHeader, type VocabularySource } from './core/tokens/vocabulary.ts'
import { compileTemplate } from './template.ts'

/** A model's tokenizer and chat template, ready for a `PromptMeter`. */
export interface OpenVocabulary {
  readonly tokenizer: ExactTokenizer
  /** null: the vocabulary was compiled without one; chats are measured in bytes. */
  readonly template: ChatTemplate | null
  readonly header: VocabularyHeader
  /** Ids, added tokens and gaps included. */
  readonly size: number
}

const utf8 = new TextEncoder()
const encodeUtf8 = (text: string, into: Uint8Array): number => utf8.encodeInto(text, into).written

/** Reads a compiled vocabulary, gzipped or not. Rejects with a VocabularyError that says what to do. */
export async function openVocabulary(file: Uint8Array): Promise<OpenVocabulary> {
  const vocabulary = new Vocabulary(isGzip(file) ? await inflate(file) : file)
  return {
    tokenizer: new BpeTokenizer({ vocabulary, encodeUtf8 }),
    template: openTemplate(vocabulary.header),
    header: vocabulary.header,
    size: vocabulary.size,
  }
}

/** Names of the vocabularies the pools ask for. */
export function tokenizersOf({ clusters }: Pick<Config, 'clusters'>): string[] {
  return clusters.flatMap(({ pools }) => pools.map((pool) => pool.tokenizer)).filter((name) => name !== null)
}

/** Opens every named vocabulary, each once. Rejects with a VocabularyError that names the one that is missing or unfit. */
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

function openTemplate({ template, specials }: VocabularyHeader): ChatTemplate | null {
  if (template === null) return null
  try {
    return compileTemplate(template, specials)
  } catch (error) {
    throw new VocabularyError(
      `its chat template cannot be parsed (${error instanceof Error ? error.message : String(error)}): compile it with --no-template`,
    )
  }
}

const isGzip = (file: Uint8Array): boolean => file[0] === 0x1f && file[1] === 0x8b

async function inflate(file: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([file as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream('gzip'))
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer())
  } catch {
    throw new VocabularyError('the file is cut or damaged: compile it again')
  }
}
