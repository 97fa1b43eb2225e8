import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OutputRecord } from '../../../src/core/continuation/output-record.ts'

describe('OutputRecord', () => {
  it('OutputRecord knows the text that was sent by its hash', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), fc.string(), fc.nat(), (texts, rest, at) => {
        const record = new OutputRecord(0)
        for (const text of texts) record.addText(text)
        const sent = texts.join('')
        expect(record.sentLength).toBe(sent.length)
        expect(record.tail).toBe(sent.slice(-64))
        expect(record.beginsWithSent(sent + rest)).toBe(true)
        if (sent === '') return
        const changed = at % sent.length
        const other = sent.charCodeAt(changed) ^ 1
        const text = sent.slice(0, changed) + String.fromCharCode(other) + sent.slice(changed + 1)
        expect(record.beginsWithSent(text + rest)).toBe(false)
        expect(record.beginsWithSent(sent.slice(1))).toBe(sent.length === 0)
      }),
    )
  })

  it('OutputRecord keeps ids in four bytes each, and can drop the last ones', () => {
    const record = new OutputRecord(100)
    for (let at = 0; at < 1000; at++) record.addIds([at, at])
    record.keepIds(1999)
    expect(record.tokens).toBe(1999)
    expect(record.ids.at(-1)).toBe(999)
    expect(record.ids.buffer.byteLength).toBeLessThanOrEqual(2 * 4 * 2048)
  })

  it('OutputRecord returns the ids that come after the dropped ones, in any chunks, or none if the dropped ones differ', () => {
    const ids = fc.array(fc.nat(3), { maxLength: 12 })
    fc.assert(
      fc.property(ids, fc.nat(12), ids, fc.integer({ min: 1, max: 5 }), (sent, drops, again, size) => {
        const record = new OutputRecord(0)
        record.addIds(sent)
        const dropped = sent.slice(Math.max(0, sent.length - drops))
        for (const _ of dropped) record.dropLast()
        const added: number[] = []
        let differs = false
        for (let at = 0; at < again.length && !differs; at += size) {
          const more = record.addAgain(again.slice(at, at + size))
          differs = more === null
          added.push(...(more ?? []))
        }
        const shared = Math.min(dropped.length, again.length)
        const isSame = dropped.slice(0, shared).every((id, at) => id === again[at])
        expect(differs).toBe(!isSame)
        if (isSame) expect(added).toEqual(again.slice(dropped.length))
      }),
    )
  })
})
