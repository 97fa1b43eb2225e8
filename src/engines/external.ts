/** A model at a provider (`kind: external`), the last resort of a pool. It is never probed. */
import { answersBy, type TextRule } from './answer-meaning.ts'
import { PLAIN, type EngineType } from './engine-type.ts'
import { PROXY_TEXTS } from './proxy-answers.ts'

/** The gateway's account at the provider has no funds: no client is at fault, and another provider may serve. */
const WITHOUT_FUNDS: readonly TextRule[] = [
  // DeepSeek, OpenRouter.
  { statuses: [402], pattern: /^/, means: 'broken' },
  // OpenAI.
  { statuses: [429], pattern: /^insufficient_quota$/, field: 'code', means: 'broken' },
  // Anthropic.
  { statuses: [400], pattern: /^Your credit balance is too low\b/, means: 'broken' },
]

export const external: EngineType = {
  ...PLAIN,
  name: 'external',
  title: 'Provider',
  // Each request may cost money.
  health: [],
  answerOf: answersBy({
    texts: [...WITHOUT_FUNDS, ...PROXY_TEXTS],
    tooLong: [],
    // The client's share of the provider's limit is used up; its `retry-after` goes to the client.
    tooManyRequests: 'client',
  }),
  // Providers reject fields that they do not know, and clients pay for what is added.
  addable: [],
}
