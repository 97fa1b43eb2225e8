import fc from 'fast-check'
import { expect, it } from 'vitest'
import { countsUpTo, quantileOf, Sketch } from '../../../src/core/reports/sketch.ts'
import type { SketchData } from '../../../src/core/contract/sketch-data.ts'

const durations = fc.array(fc.double({ min: 0.001, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 200 })
const sketchOf = (values: readonly number[]) => {
  const sketch = new Sketch()
  for (const value of values) sketch.add(value)
  return sketch
}

const countOf = (data: SketchData): number => countsUpTo(data, [Infinity])[0]!

it('a sketch finds every quantile of a sorted list within 1 %', () => {
  fc.assert(
    fc.property(durations, fc.double({ min: 0, max: 1, noNaN: true }), (values, q) => {
      const exact = [...values].sort((a, b) => a - b)[Math.floor(q * (values.length - 1))]!
      const found = quantileOf(sketchOf(values).data(), q)!
      expect(Math.abs(found - exact)).toBeLessThanOrEqual(exact * 0.0101)
    }),
  )
})

it('a sketch counts values up to each limit as a list does, except values within 2 % of a limit', () => {
  const limits = fc
    .array(fc.double({ min: 0.002, max: 1e6, noNaN: true }), { maxLength: 10 })
    .map((all) => [...all.sort((a, b) => a - b), Infinity])
  fc.assert(
    fc.property(durations, limits, (values, growing) => {
      const found = countsUpTo(sketchOf(values).data(), growing)
      for (const [at, limit] of growing.entries()) {
        expect(found[at]).toBeGreaterThanOrEqual(values.filter((value) => value <= limit).length)
        expect(found[at]).toBeLessThanOrEqual(values.filter((value) => value <= limit * 1.0205).length)
      }
    }),
  )
})

it('a sketch counts no value more than 2 % above a limit', () => {
  const values = Array.from({ length: 1_000 }, (_, at) => 1 + at / 1_000)
  const limits = [1.1, 1.3, 1.7]
  const found = countsUpTo(sketchOf(values).data(), limits)
  for (const [at, limit] of limits.entries())
    expect(found[at]).toBeLessThanOrEqual(values.filter((value) => value <= limit * 1.0205).length)
})

it('a sketch merges to the sketch of all values, in any order', () => {
  fc.assert(
    fc.property(durations, durations, (ones, others) => {
      const merged = sketchOf(ones)
      merged.merge(sketchOf(others).data())
      const whole = sketchOf([...others, ...ones])
      const { sum, ...rest } = merged.data()
      const { sum: wholeSum, ...wholeRest } = whole.data()
      expect(rest).toEqual(wholeRest)
      expect(sum).toBeCloseTo(wholeSum, 3)
      expect(countOf(merged.data())).toBe(ones.length + others.length)
    }),
  )
})

it('a sketch returns data that later additions and merges do not change', () => {
  fc.assert(
    fc.property(fc.array(durations, { minLength: 1, maxLength: 5 }), (batches) => {
      const sketch = new Sketch()
      const states = batches.map((values, at) => {
        if (at % 2 === 0) for (const value of values) sketch.add(value)
        else sketch.merge(sketchOf(values).data())
        return sketch.data()
      })
      for (const [at, data] of states.entries()) expect(countOf(data)).toBe(batches.slice(0, at + 1).flat().length)
    }),
  )
})

it('a sketch is equal after JSON serialization', () => {
  fc.assert(
    fc.property(durations, (values) => {
      const data = sketchOf(values).data()
      const back = new Sketch()
      back.merge(JSON.parse(JSON.stringify(data)))
      expect(back.data()).toEqual(data)
    }),
  )
})

it('a sketch ignores values that are not durations, and clamps the shortest and longest', () => {
  const sketch = sketchOf([Number.NaN, -1, Infinity, 0, 1e-9, 1e30])
  expect(countOf(sketch.data())).toBe(3)
  expect(sketch.data().zeros).toBe(2)
  expect(quantileOf(sketch.data(), 1)).toBeLessThan(1.02e9)
  expect(quantileOf(new Sketch().data(), 0.5)).toBeNull()
})
