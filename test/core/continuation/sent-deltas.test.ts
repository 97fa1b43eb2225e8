import { describe, expect, it } from 'vitest'
import { RepeatedDeltas, SentDeltas } from '../../../src/core/continuation/sent-deltas.ts'

describe('RepeatedDeltas', () => {
  const sent = new SentDeltas()
  sent.add('content', 'one ')
  sent.add('content', 'two')
  sent.add('name:0', '')

  it.each([[['one two three']], [['one t', 'wo three']], [['one two', ' three']], [['', 'one two three', '']]])(
    'RepeatedDeltas returns what follows the sent text, however %j is divided',
    (pieces) => {
      const repeated = new RepeatedDeltas(sent)
      expect(pieces.map((piece) => repeated.rest('content', piece)).join('')).toBe(' three')
      expect(repeated.isComplete).toBe(true)
    },
  )

  it('RepeatedDeltas is not complete before all sent text was repeated', () => {
    const repeated = new RepeatedDeltas(sent)
    expect(repeated.rest('content', 'one tw')).toBe('')
    expect(repeated.isComplete).toBe(false)
  })

  it('RepeatedDeltas returns null for another text of the same length', () => {
    expect(new RepeatedDeltas(sent).rest('content', 'one twO and more')).toBeNull()
  })

  it('RepeatedDeltas keeps channels apart, and passes one that the client does not have', () => {
    const repeated = new RepeatedDeltas(sent)
    expect(repeated.rest('reasoning', 'thought')).toBe('thought')
    expect(repeated.wasSent('name:0')).toBe(true)
    expect(repeated.wasSent('name:1')).toBe(false)
  })

  it('RepeatedDeltas does not compare with text that is sent during the repetition', () => {
    const own = new SentDeltas()
    own.add('content', 'ab')
    const repeated = new RepeatedDeltas(own)
    const rest = repeated.rest('content', 'abc')!
    own.add('content', rest)
    expect(repeated.rest('content', 'd')).toBe('d')
  })
})
