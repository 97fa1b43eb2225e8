/** A prompt that no other row has, and whether its cached tokens are predicted as the engine reports them. */
import { servedModel } from '../engine.ts'
import { generator } from '../fuzz.ts'
import type { RunningGateway } from '../gateway.ts'
import { askStream } from './ask-stream.ts'
import type { StreamAnswer } from './ask-stream.ts'

/** Returns 200 tokens. */
export function freshPrompt(): number[] {
  const random = generator(Math.floor(Math.random() * 2 ** 31))
  return Array.from({ length: 200 }, () => 10 + Math.floor(random() * 1900))
}

export const askFor = (gateway: RunningGateway, prompt: readonly number[]): Promise<StreamAnswer> =>
  askStream(gateway, {
    path: '/v1/completions',
    body: { model: servedModel, prompt, max_tokens: 4, temperature: 0, ignore_eos: true },
  })

/** Predicted and reported cached tokens. */
export const cachedOf = ({ decision, cached }: StreamAnswer): string =>
  `${decision.predicted_cached_tokens ?? 0}/${cached}`
export const isExact = ({ decision, cached }: StreamAnswer): boolean =>
  (decision.predicted_cached_tokens ?? 0) === cached
