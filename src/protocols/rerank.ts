/** Reranking of documents by a query. */
import { NOTHING_DECODED, ONE_PASS } from './one-pass.ts'
import { readPairs } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type Protocol } from './protocol.ts'

export const rerank: Protocol = {
  ...ONE_PASS,
  name: 'rerank',
  operation: 'rerank',
  endpoints: ['/rerank', '/v1/rerank', '/v2/rerank'].map((path) => ({
    ...PLAIN_ENDPOINT,
    path,
    salted: true,
    unsplittable: NOTHING_DECODED,
  })),
  prompt: (body) => readPairs(body['query'], body['documents']),
}
