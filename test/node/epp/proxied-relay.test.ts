import { expect, it } from 'vitest'
import { AnswerStart } from '../../../src/origin/relay/answer-start.ts'
import { type BodyOutlet, ProxiedRelay } from '../../../src/platform/node/epp/proxied-relay.ts'
import type { RelayOptions, RelayResult } from '../../../src/ports/relay.ts'
import { chat } from '../../../src/protocols/chat.ts'
import { DONE, token } from '../../kit/sse.ts'
import { turns, until } from '../../wait.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

/** A relay whose engine may be silent for 50 ms, behind these bytes. */
function openRelay(first: string) {
  const ends: RelayResult[] = []
  const written: [text: string, isLast: boolean][] = []
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
  const start = new AnswerStart(
    { status: 200, headers: [], sse: true },
    { protocol: chat, isJson: false, isStream: true },
  )
  const outlet: BodyOutlet = {
    write: (pieces, isLast) => void written.push([Buffer.concat(pieces).toString(), isLast]),
    truncate: () => void written.push(['truncated', true]),
    isFull: false,
  }
  const held = bytes(first)
  start.take(held)
  const body = { held: [held], ended: false, start, sse: true }
  const relay = new ProxiedRelay({ options, body, outlet, changes: true })
  return { relay, ends, written }
}

it('a relay to a proxy does not blame an engine for the time in which this process was stopped', async () => {
  const { relay, ends } = openRelay(token('a'))
  relay.begin()
  // Nothing is read meanwhile, and the timer of the limit is late.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)
  await turns(5)
  expect(ends).toEqual([])
  relay.take(bytes(token('b') + DONE))
  relay.end(true)
  expect(ends).toMatchObject([{ end: 'complete' }])
})

it('a relay to a proxy ends a stream whose engine falls silent behind the last event, with bytes and without an error', async () => {
  const { relay, ends, written } = openRelay(token('a'))
  relay.begin()
  relay.take(bytes(DONE))
  await until(() => ends.length > 0)
  expect(ends).toMatchObject([{ end: 'complete', failure: null }])
  expect(written).toEqual([
    [token('a'), false],
    [DONE, false],
    [': ping\n', true],
  ])
})

it('a relay to a proxy truncates a stream whose engine falls silent before the last event', async () => {
  const { relay, ends, written } = openRelay(token('a'))
  relay.begin()
  await until(() => ends.length > 0)
  expect(ends).toMatchObject([{ end: 'engine_truncated', failure: 'idle_timeout' }])
  expect(written.at(-1)).toEqual(['truncated', true])
})
