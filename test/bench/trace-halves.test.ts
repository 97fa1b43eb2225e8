import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import {
  type Halves,
  halvesIn,
  halvesNamed,
  isSecondHalf,
  withSecondHalves,
} from '../../packages/bench/trace-halves.ts'

const folder = mkdtempSync(join(tmpdir(), 'trace-halves-'))
afterAll(() => rmSync(folder, { recursive: true }))

const file = join(folder, 'conversation.jsonl')
const lines = Array.from({ length: 9 }, (_, at) => ({
  timestamp: 1_000 * at,
  input_length: 512,
  output_length: 10 + at,
  hash_ids: [at],
}))
writeFileSync(file, lines.map((line) => JSON.stringify(line)).join('\n'))

const outputs = (halves: Halves, limit: number): Record<string, readonly number[]> =>
  Object.fromEntries(
    halvesIn(file, limit, halves).map(({ name, requests }) => [name, requests.map((one) => one.outputTokens)]),
  )

it('halves of a trace share no request, however many are read', () => {
  expect(outputs('both', 100)).toEqual({
    'conversation.jsonl': [10, 11, 12, 13, 14],
    'conversation.jsonl, second half': [15, 16, 17, 18],
  })
  expect(outputs('both', 2)).toEqual({
    'conversation.jsonl': [10, 11],
    'conversation.jsonl, second half': [15, 16],
  })
})

it('a half of a trace can be read alone, and the second starts at time 0', () => {
  expect(Object.keys(outputs('first', 3))).toEqual(['conversation.jsonl'])
  const [second, ...more] = halvesIn(file, 3, 'second')
  expect(more).toEqual([])
  expect(isSecondHalf(second!.name)).toBe(true)
  expect(second!.requests.map(({ atMs }) => atMs)).toEqual([0, 1_000, 2_000])
})

it('an unknown half is refused with the known ones', () => {
  expect(halvesNamed(undefined, 'first')).toBe('first')
  expect(halvesNamed('both', 'first')).toBe('both')
  for (const flag of ['third', true] as const)
    expect(() => halvesNamed(flag, 'first')).toThrow(/--half: ".*" is none of first, second, both/)
})

it('figures of second halves stand beside those of the first', () => {
  expect(withSecondHalves({ goodput: 0.8, late: 1 }, { goodput: 0.7 })).toEqual({
    goodput: 0.8,
    late: 1,
    goodput_second_half: 0.7,
  })
})
