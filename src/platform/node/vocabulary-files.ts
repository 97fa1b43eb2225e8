import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Config } from '../../config.ts'
import { VocabularyError, type VocabularySource } from '../../core/tokens/vocabulary.ts'
import { openVocabularies, type OpenVocabulary, tokenizersOf } from '../../vocabulary.ts'
import { fileFingerprint } from './file-fingerprint.ts'

/**
 * Opens the vocabularies of a configuration's pools, by name. Rejects like `openVocabularies`.
 * @param sameFiles keep open vocabularies even if their files changed
 */
type VocabulariesOf<Value = OpenVocabulary> = (
  config: Config,
  sameFiles?: boolean,
) => Promise<ReadonlyMap<string, Value>>

/**
 * Opens the vocabularies of a configuration, and for the next one only new or changed files. An unchanged file keeps
 * its tokenizer and its cache.
 * @param keep state to keep from one configuration to the next
 */
export function vocabulariesIn<Value = OpenVocabulary>(
  folder: string,
  keep: (opened: OpenVocabulary) => Value,
): VocabulariesOf<Value> {
  const source = fileVocabularies(folder)
  let entries = new Map<string, { readonly state: string | null; readonly kept: Value }>()
  return async (config, sameFiles = false) => {
    const next: typeof entries = new Map()
    for (const name of new Set(tokenizersOf(config))) {
      const state = stateIfThere(resolve(folder, name))
      const known = entries.get(name)
      if (known !== undefined && (sameFiles || (state !== null && known.state === state))) next.set(name, known)
      else next.set(name, { state, kept: keep((await openVocabularies([name], source)).get(name)!) })
    }
    entries = next
    return new Map([...next].map(([name, { kept }]) => [name, kept]))
  }
}

function stateIfThere(file: string): string | null {
  try {
    return fileFingerprint(file)
  } catch {
    return null
  }
}

/** Vocabularies as files. Relative names start at `folder`, the folder of the configuration. */
export function fileVocabularies(folder: string): VocabularySource {
  return async (name) => {
    try {
      return await readFile(resolve(folder, name))
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
      throw new VocabularyError(
        `cannot be read (${code}): make it with \`firstlight vocab compile tokenizer.json -o ${name}\``,
      )
    }
  }
}
