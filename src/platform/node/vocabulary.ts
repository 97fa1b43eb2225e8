import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { VocabularyError, type VocabularySource } from '../../core/tokens/vocabulary.ts'

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
