import { describe, expect, it } from 'vitest'
import { type AnswerToken, answersAgree } from '../../../src/core/canary/answers-agree.ts'

const tokens = (...given: readonly (readonly [string, number | null])[]): AnswerToken[] =>
  given.map(([text, logprob]) => ({ text, logprob }))

describe('two greedy answers', () => {
  const answer = tokens(['The', -0.1], [' cat', -0.7], [' sat', -0.2])

  it('two greedy answers agree if all tokens are equal, whatever their log probabilities', () => {
    expect(answersAgree(answer, tokens(['The', -0.3], [' cat', -0.6], [' sat', null]))).toBe(true)
  })

  it('two greedy answers agree if they part at a tie', () => {
    expect(answersAgree(answer, tokens(['The', -0.1], [' dog', -0.8], [' ran', -0.1]))).toBe(true)
  })

  it('two greedy answers disagree if they part where one was much more likely', () => {
    expect(answersAgree(answer, tokens(['The', -0.1], [' dog', -3.2], [' ran', -0.1]))).toBe(false)
  })

  it('two greedy answers disagree if they part and one has no log probabilities', () => {
    expect(answersAgree(answer, tokens(['The', null], [' dog', null]))).toBe(false)
  })

  it('two greedy answers disagree if one ends earlier', () => {
    expect(answersAgree(answer, answer.slice(0, 2))).toBe(false)
    expect(answersAgree(answer.slice(0, 2), answer)).toBe(false)
  })
})
