import { expect, it } from 'vitest'
import { sampleConfidence } from '../../../src/core/latency/sample-confidence.ts'

/** Confidence some time after the last of 32 samples that agreed for a time. */
const confidence = (agreedS: number, laterS: number): number =>
  sampleConfidence(32, { firstAt: 0, lastAt: 1000 * agreedS }, 1000 * (agreedS + laterS))

it('confidence in samples of a moment is gone after half a minute', () => {
  expect(confidence(0, 0)).toBeGreaterThan(0.9)
  expect(confidence(0, 30)).toBeLessThan(0.2)
})

it('confidence in a speed lasts for as long as its samples agreed before', () => {
  expect(confidence(60, 30)).toBeGreaterThan(0.85)
  expect(confidence(60, 60)).toBeCloseTo(confidence(10, 10), 12)
  expect(confidence(60, 600)).toBeLessThan(0.05)
})

it('confidence in a speed of hours halves within ten minutes of silence', () => {
  expect(confidence(36_000, 600)).toBeCloseTo(confidence(600, 600), 12)
})
