import { VocabularyError, type VocabularySource } from '../../core/tokens/vocabulary.ts'

/** Bindings with compiled vocabularies, keyed by the names in the pools. The first existing binding is used. */
export interface VocabularyEnv {
  readonly VOCABULARIES?: KVNamespace
  readonly VOCABULARY_BUCKET?: R2Bucket
  /** Static assets of the deployment. */
  readonly ASSETS?: Fetcher
}

export function vocabularySource({ VOCABULARIES, VOCABULARY_BUCKET, ASSETS }: VocabularyEnv): VocabularySource {
  if (VOCABULARIES !== undefined) return kvVocabularies(VOCABULARIES)
  if (VOCABULARY_BUCKET !== undefined) return r2Vocabularies(VOCABULARY_BUCKET)
  if (ASSETS !== undefined) return assetVocabularies(ASSETS)
  throw new VocabularyError(
    'no binding holds vocabularies: bind a KV namespace as VOCABULARIES, an R2 bucket as ' +
      'VOCABULARY_BUCKET, or static assets as ASSETS',
  )
}

/** Vocabularies as values of a KV namespace, by key. */
function kvVocabularies(namespace: KVNamespace): VocabularySource {
  return async (name) =>
    fileOrThrow(
      await namespace.get(name, 'arrayBuffer'),
      `wrangler kv key put --binding VOCABULARIES ${name} --path ${name}`,
    )
}

/** Vocabularies as objects of an R2 bucket. */
function r2Vocabularies(bucket: R2Bucket): VocabularySource {
  return async (name) =>
    fileOrThrow(
      (await (await bucket.get(name))?.arrayBuffer()) ?? null,
      `wrangler r2 object put BUCKET/${name} --file ${name}`,
    )
}

/** Vocabularies as static assets. */
function assetVocabularies(assets: Fetcher): VocabularySource {
  return async (name) => {
    const response = await assets.fetch(`https://assets.invalid/${encodeURI(name)}`)
    return fileOrThrow(response.ok ? await response.arrayBuffer() : null, 'put the file into the assets directory')
  }
}

function fileOrThrow(file: ArrayBuffer | null, next: string): Uint8Array {
  if (file === null) throw new VocabularyError(`is not there: ${next}`)
  return new Uint8Array(file)
}
