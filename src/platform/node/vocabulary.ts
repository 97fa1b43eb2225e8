import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Config } from '../../config.ts'
import { VocabularyError, type VocabularySource } from '../../core/tokens/vocabulary.ts'
import { openVocabularies, type OpenVocabulary, tokenizersOf } from '../../vocabulary.ts'

/** What a configuration's pools count with, by name. Rejects as `openVocabularies` does. */
export const vocabulariesOf = (config: Config, folder: string): Promise<ReadonlyMap<string, OpenVocabulary>> => openVocabularies(tokenizersOf(config), fileVocabularies(folder))

/** Vocabularies as files; names are paths, relative ones from `folder` (where the configuration is). */
export function fileVocabularies(folder: string): VocabularySource {
  return async (name) => {
    try {
      return await readFile(resolve(folder, name))
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
      throw new VocabularyError(`cannot be read (${code}): make it with \`firstlight vocab compile tokenizer.json -o ${name}\``)
    }
  }
}
