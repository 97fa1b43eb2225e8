import { expect, it } from 'vitest'
import { AnswerStart } from '../../../src/origin/relay/answer-start.ts'
import { ProxiedRelay } from '../../../src/platform/node/epp/proxied-relay.ts'
import type { RelayOptions, RelayResult } from '../../../src/ports/relay.ts'
import { chat } from '../../../src/protocols/chat.ts'
import { DONE, token } from '../../kit/sse.ts'
import { turns } from '../../wait.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

/** A relay whose engine may be silent for 50 ms. */
function openRelay() {
  const ends: RelayResult[] = []
  const options: RelayOptions = {
    scope: { background: () => {}, client: null },
    status: 200,
    headers: [],
    protocol: chat,
    observe: true,
    hideUsage: false,
    heartbeatMs: 0,
    idleMs: 50,
    firstEvents: 0,
    checksEnd: true,
    onEvents: () => Infinity,
    onFirstByte: () => {},
    settled: (end) => void ends.push(end),
  }
  const start = new AnswerStart({ status: 200, headers: [], sse: true }, { protocol: chat, isJson: false })
  const outlet = { write: () => {}, truncate: () => {}, isFull: false }
  const body = { held: [bytes(token('a'))], ended: false, start, sse: true }
  const relay = new ProxiedRelay({ options, body, outlet, changes: true })
  return { relay, ends }
}

it('a relay to a proxy does not blame an engine for the time in which this process was stopped', async () => {
  const { relay, ends } = openRelay()
  relay.begin()
  // Nothing is read meanwhile, and the timer of the limit is late.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)
  await turns(5)
  expect(ends).toEqual([])
  relay.take(bytes(token('b') + DONE))
  relay.end(true)
  expect(ends).toMatchObject([{ end: 'complete' }])
})
