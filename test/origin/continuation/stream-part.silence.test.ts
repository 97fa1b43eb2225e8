import { expect, it } from 'vitest'
import { readPart, type Part } from '../../../src/origin/continuation/stream-part.ts'
import { HEARTBEAT } from '../../../src/protocols/stream/event.ts'

it('the silence of an engine lasts through heartbeats, until its next bytes or the end', async () => {
  let now = 0
  const token = new Uint8Array([1])
  const chunks = [token, HEARTBEAT, HEARTBEAT, token, HEARTBEAT]
  const part = {
    attempt: { ports: { now: () => now }, placed: { engine: {} } },
    reader: {
      async read() {
        now += 300
        const value = chunks.shift()
        if (value === undefined) throw new Error('it broke off')
        return value
      },
    },
    waitingSince: null,
    silentMs: 0,
  } as unknown as Part
  const silences: number[] = []
  for (let reads = 0; reads < 6; reads++) {
    const chunk = await readPart(part)
    if (chunk !== HEARTBEAT) silences.push(part.silentMs)
  }
  expect(silences).toEqual([300, 900, 600])
})
