import { describe, expect, it } from 'vitest'
import { predictionErrorMs } from '../../../../src/core/pool/condition/owed-tokens.ts'
import { firstQuestionMs, nextQuestionMs } from '../../../../src/core/pool/condition/rescue-times.ts'

/** Questions of a request without a first byte, ms since it was sent. */
function questions(predictedMs: number, untilMs: number): number[] {
  const calls = []
  let interval: number | null = null
  for (let at = firstQuestionMs(predictedMs); at <= untilMs; at += interval) {
    calls.push(at)
    interval = nextQuestionMs(interval)
  }
  return calls
}

describe('questions whether an engine is wedged', () => {
  it('questions whether an engine is wedged come a second before a client of five seconds leaves, even if no pace is learned', () => {
    const wedgedAt = 100 + predictionErrorMs(100, false) + 1_000
    expect(questions(100, 4_000).filter((at) => at > wedgedAt)).not.toEqual([])
  })

  it('questions whether an engine is wedged follow the predicted work', () => {
    expect(firstQuestionMs(20_000)).toBeGreaterThan(20_000 + predictionErrorMs(20_000, true))
  })

  it('questions whether an engine is wedged become rarer, so that a minute of waiting costs few of them', () => {
    expect(questions(100, 60_000).length).toBeLessThan(25)
  })
})
