import { VocabularyError, type VocabularySource } from '../../core/tokens/vocabulary.ts'

/** Vocabularies as values of a KV namespace, by key. */
export function kvVocabularies(namespace: KVNamespace): VocabularySource {
  return async (name) => found(await namespace.get(name, 'arrayBuffer'), `wrangler kv key put --binding VOCABULARIES ${name} --path ${name}`)
}

/** Vocabularies as objects of an R2 bucket. */
export function r2Vocabularies(bucket: R2Bucket): VocabularySource {
  return async (name) => found((await (await bucket.get(name))?.arrayBuffer()) ?? null, `wrangler r2 object put BUCKET/${name} --file ${name}`)
}

/** Vocabularies as static assets. */
export function assetVocabularies(assets: Fetcher): VocabularySource {
  return async (name) => {
    const response = await assets.fetch(`https://assets.invalid/${encodeURI(name)}`)
    return found(response.ok ? await response.arrayBuffer() : null, 'put the file into the assets directory')
  }
}

function found(file: ArrayBuffer | null, next: string): Uint8Array {
  if (file === null) throw new VocabularyError(`is not there: ${next}`)
  return new Uint8Array(file)
}
