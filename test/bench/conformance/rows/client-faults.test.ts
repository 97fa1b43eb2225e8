import { describe, expect, it } from 'vitest'
import type { SeenAnswer } from '../../../../packages/bench/client-faults/ask.ts'
import { faultClients } from '../../../../packages/bench/client-faults/clients.ts'
import { ANSWER } from '../../../../packages/bench/client-faults/faults.ts'
import { wrongIn } from '../../../../packages/bench/conformance/rows/client-faults.ts'

const client = faultClients.find(({ name }) => name === 'openai-python')!
const verdict = (answer: Partial<SeenAnswer>) =>
  wrongIn({ protocol: 'chat', fault: 'cut', raised: null, ...answer }, client)

describe('an answer that a client saw', () => {
  it.each<[string, Partial<SeenAnswer>]>([
    ['a whole text without a fault', { fault: 'none', text: ANSWER }],
    ['the right class', { fault: 'no_end', raised: 'APIError' }],
    ['class and status of a refusal', { fault: 'html', raised: 'InternalServerError', status: 502 }],
    ['a wait', { fault: 'busy', raised: 'RateLimitError', status: 429, retryAfter: '7' }],
  ])('an answer that a client saw is right: %s', (_what, answer) => expect(verdict(answer)).toBeNull())

  it.each<[string, Partial<SeenAnswer>, RegExp]>([
    ['a short text read as an answer', { text: 'This ans' }, /read as an answer: "This ans"/],
    ['a short text without a fault', { fault: 'none', text: 'This ans' }, /not the whole answer/],
    ['an error without a fault', { fault: 'none', raised: 'APIError' }, /not the whole answer: APIError/],
    ['another class', { raised: 'ValueError' }, /ValueError instead of APIError or APIConnectionError/],
    ['another status', { fault: 'html', raised: 'InternalServerError', status: 500 }, /status 500, not 502/],
    ['no wait', { fault: 'busy', raised: 'RateLimitError', status: 429, retryAfter: null }, /retry-after null/],
  ])('an answer that a client saw is wrong: %s', (_what, answer, message) => expect(verdict(answer)).toMatch(message))
})
