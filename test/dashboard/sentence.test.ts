import { describe, expect, it } from 'vitest'
import { type ExplainedDecision, sentenceOf } from '../../src/dashboard/sentence.ts'

const explained = (more: object = {}): ExplainedDecision =>
  ({
    policy: 'predicted',
    placement: { kind: 'whole', engine: 'a' },
    candidates: [
      { engine: 'a', cost: 0.12, terms: {} },
      { engine: 'b', cost: 0.4, terms: {} },
      { engine: 'c', cost: 0.3, terms: {} },
    ],
    predicted_ttft_ms: 120,
    predicted_cached_tokens: 512,
    prompt_tokens: 1900,
    ...more,
  }) as unknown as ExplainedDecision

describe('the sentence that explains a decision', () => {
  it.each([
    [
      {},
      'predicted chose a of 3 candidates: its cost of 0.12 is the lowest, before c with 0.3; ' +
        'predicted first token after 120 ms, with 512 of 1,900 prompt tokens cached.',
    ],
    [
      { predicted_ttft_ms: null, policy: 'round_robin', candidates: [{ engine: 'a', cost: 1, terms: {} }] },
      'round_robin chose a, the only candidate.',
    ],
    [
      {
        predicted_ttft_ms: null,
        candidates: [
          { engine: 'a', cost: 0.13121, terms: {} },
          { engine: 'b', cost: 0.13139, terms: {} },
        ],
      },
      'predicted chose a of 2 candidates: its cost of 0.1312 is the lowest, before b with 0.1314.',
    ],
    [
      { predicted_ttft_ms: null, moved_from: 'b' },
      'predicted chose a, because its first choice, b, had no room for the request.',
    ],
    [
      { predicted_ttft_ms: null, placement: { kind: 'whole', engine: 'b' } },
      'predicted chose b of 3 candidates, although a has a lower cost (0.12, not 0.4).',
    ],
    [
      { predicted_cached_tokens: null, placement: { kind: 'split', prefill: 'a', decode: 'd' } },
      'predicted chose a to prefill and d to decode of 3 candidates: its cost of 0.12 is the lowest, ' +
        'before c with 0.3; predicted first token after 120 ms.',
    ],
  ])('%j', (more, sentence) => expect(sentenceOf(explained(more))).toBe(sentence))
})
