/** A model at a provider (`kind: external`), the last resort of a pool. It is never probed. */
import { answersBy } from './answer-meaning.ts'
import { PLAIN, type EngineType } from './engine-type.ts'
import { PROXY_TEXTS } from './proxy-answers.ts'

export const external: EngineType = {
  ...PLAIN,
  kind: 'external',
  title: 'Provider',
  // Each request may cost money.
  health: [],
  answerOf: answersBy({
    texts: PROXY_TEXTS,
    tooLong: [],
    // The client's share of the provider's limit is used up; its `retry-after` goes to the client.
    tooManyRequests: 'client',
  }),
  // Providers reject fields that they do not know, and clients pay for what is added.
  addable: [],
}
