import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { StopWindow, type StopMatch } from '../../../src/core/continuation/stop-window.ts'

const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 30 })
const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 6 }), {
  maxLength: 3,
})

interface Uncut {
  readonly text: string
  /** Where the stop string ends that ended the output; Infinity: none did. */
  readonly end: number
  readonly stop: string | null
}

/** Text of an uncut stream: the stop string that is complete first ends it. */
function uncut(text: string, all: readonly string[]): Uncut {
  const found = all.flatMap((stop) => {
    const at = text.indexOf(stop)
    return at < 0 ? [] : [{ text: text.slice(0, at), end: at + stop.length, stop }]
  })
  const whole: Uncut = { text, end: Infinity, stop: null }
  return found.reduce((first, one) => (one.end < first.end ? one : first), whole)
}

const pieces = (text: string, size: number): string[] =>
  Array.from({ length: Math.ceil(text.length / size) }, (_, at) => text.slice(at * size, (at + 1) * size))

describe('StopWindow', () => {
  it('StopWindow gives the text of an uncut stream, wherever it is cut', () => {
    fc.assert(
      fc.property(letters, letters, stops, fc.integer({ min: 1, max: 7 }), (before, after, all, size) => {
        // The first engine would have ended the stream.
        fc.pre(uncut(before, all).end === Infinity)
        // Of two stop strings that end at the same character, an engine may report either.
        fc.pre(new Set(all.map((stop) => stop.at(-1))).size === all.length)
        const reach = Math.max(0, ...all.map(({ length }) => length - 1))
        const sent = before.slice(0, Math.max(0, before.length - reach))
        const window = new StopWindow(all, false, sent)
        let text = sent
        let stopped = false
        const take = (found: StopMatch | string): void => {
          text += typeof found === 'string' ? found : found.text
          stopped ||= typeof found !== 'string'
        }
        take(window.addPending(before.slice(sent.length)))
        // The engine that continues cuts its own text at a stop string in it.
        const own = uncut(after, all)
        for (const piece of pieces(own.text, size)) if (!stopped) take(window.add(piece))
        if (!stopped) take(window.end(own.stop))
        expect(text).toBe(uncut(before + after, all).text)
      }),
      { numRuns: 2000 },
    )
  })

  it('StopWindow includes the stop string if the request does', () => {
    const window = new StopWindow(['end'], true, 'the e')
    expect(window.add('nd of it')).toEqual({ text: 'nd', stop: 'end' })
  })

  it('StopWindow holds nothing back without stop strings', () => {
    const window = new StopWindow([], false, 'sent')
    expect([window.addPending('a'), window.add('b'), window.end(null)]).toEqual(['a', 'b', ''])
  })
})
