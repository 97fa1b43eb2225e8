import { chat } from '../../../src/protocols/chat.ts'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AnswerStart } from '../../../src/origin/relay/answer-start.ts'
import { RelayController, type RelayTraits } from '../../../src/origin/relay/relay-controller.ts'
import { OriginError } from '../../../src/ports/origin.ts'
import type { RelayOptions, RelayResult } from '../../../src/ports/relay.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const drop = () => {}
const event = (text: number, more = '') => `data: {"choices":[{"index":0,"delta":{"content":"${text}"}${more}}]}\n\n`
const last = event(1, ',"finish_reason":"stop"')
const STREAM: RelayTraits = { sse: true, reads: true, hidesUsage: false, start: null }

interface Calls {
  firstBytes: number
  readonly events: number[]
  readonly ids: string[]
  readonly ends: RelayResult[]
}

function controller(options: Partial<RelayOptions> = {}, traits: Partial<RelayTraits> = {}) {
  const calls: Calls = { firstBytes: 0, events: [], ids: [], ends: [] }
  const control = new RelayController(
    {
      scope: { background: drop, client: null },
      status: 200,
      headers: [],
      protocol: chat,
      observe: true,
      hideUsage: false,
      heartbeatMs: 0,
      idleMs: 0,
      firstEvents: 0,
      checksEnd: true,
      onEvents: (events) => {
        calls.events.push(events)
        return events + 2
      },
      onFirstByte: () => void calls.firstBytes++,
      truncationEvent: (failure) => bytes(`data: ${failure}\n\n`),
      settled: (end) => void calls.ends.push(end),
      ...options,
    },
    { ...STREAM, ...traits },
  )
  return { control, calls, take: (text: string) => control.take(bytes(text), drop) }
}

it('the relay controller reports the first byte once, at the first content behind keep-alive comments', () => {
  const { calls, take } = controller()
  take(': wait\n\n')
  expect(calls.firstBytes).toBe(0)
  take(event(1))
  take(event(2))
  expect(calls.firstBytes).toBe(1)
})

it.each([
  { body: `${last}data: [DONE]\n\n`, traits: {}, options: {}, failure: null },
  { body: event(1), traits: {}, options: {}, failure: 'reset' },
  { body: event(1), traits: {}, options: { checksEnd: false }, failure: null },
  { body: event(1), traits: { reads: false }, options: { observe: false }, failure: null },
  { body: '{}', traits: { sse: false }, options: {}, failure: null },
])('ends $body ($traits, $options) with the failure $failure', ({ body, traits, options, failure }) => {
  const { control, take } = controller(options, traits)
  take(body)
  expect(control.end(drop)?.failure ?? null).toBe(failure)
})

it.each([
  { how: 'a body that is read', reads: true, judged: '', rest: `${last}data: [DONE]\n\n`, failure: null },
  { how: 'a body that is read', reads: true, judged: '', rest: last, failure: 'reset' },
  { how: 'an unread body', reads: false, judged: `${last}data: [DONE]\n\n`, rest: '', failure: null },
  { how: 'an unread body', reads: false, judged: last, rest: 'data: [DONE]\n\n', failure: 'reset' },
])('$how that breaks behind "$judged", which was judged, and "$rest" has the failure $failure', (broken) => {
  const { reads, judged, rest, failure } = broken
  const start = new AnswerStart(
    { status: 200, headers: [], sse: true },
    { protocol: chat, isJson: false, isStream: true },
  )
  start.take(bytes(judged))
  const { control, take } = controller({}, { reads, start })
  if (judged !== '') take(judged)
  take(rest)
  expect(control.endBroken(new OriginError('reset', 'broke'), drop)?.failure ?? null).toBe(failure)
})

it('the relay controller checks the end of each stream that it reads, also of one that is not observed', () => {
  const { control, take } = controller({ observe: false })
  take(event(1))
  expect(control.end(drop)?.failure).toBe('reset')
})

it('the relay controller limits the silence after the first byte by idleMs, and before it by the first-byte limit', () => {
  const { control, take } = controller({ idleMs: 100 }, { readMs: 0 })
  control.active(0)
  expect(control.checkInMs(0, 40)).toBe(40)
  expect(control.check(99, 0, 1)).toBeNull()
  expect((control.check(40, 0, 0) as OriginError).failure).toBe('first_byte_timeout')
  take(event(1))
  control.active(50)
  expect(control.checkInMs(60)).toBe(90)
  expect(control.check(140, 0)).toBeNull()
  expect((control.check(150, 0) as OriginError).failure).toBe('idle_timeout')
})

it('the relay controller extends a limit of silence by the time for which this process was late, until bytes come', () => {
  const { control, take } = controller({ idleMs: 100, heartbeatMs: 400 })
  take(event(1))
  control.active(0)
  expect(control.check(700, 600)).toBe('heartbeat')
  expect(control.checkInMs(700)).toBe(400)
  expect(control.check(1_100, 0)).toBe('heartbeat')
  expect(control.checkInMs(1_100)).toBe(200)
  expect((control.check(1_300, 0) as OriginError).failure).toBe('idle_timeout')
  control.active(1_300)
  expect(control.check(1_400, 0)).toBeNull()
  expect(control.checkInMs(1_400)).toBe(20)
  expect((control.check(1_420, 0) as OriginError).failure).toBe('idle_timeout')
})

it('the relay controller names a late first byte of a further engine silence, once the client has output', () => {
  const { control, take } = controller()
  take(event(1))
  expect(control.truncate('first_byte_timeout', true)).toEqual(bytes('data: idle_timeout\n\n'))
  expect(controller().control.truncate('first_byte_timeout', true)).toEqual(bytes('data: first_byte_timeout\n\n'))
})

it('the relay controller sends a heartbeat after heartbeatMs without a byte and without a heartbeat', () => {
  const { control } = controller({ heartbeatMs: 10, idleMs: 100 })
  control.active(0)
  expect(control.check(5, 0)).toBeNull()
  expect(control.check(10, 0)).toBe('heartbeat')
  expect(control.checkInMs(12)).toBe(8)
  expect(control.check(15, 0)).toBeNull()
})

it('the relay controller allows no heartbeat inside an event, and none in a body that does not stream', () => {
  const { control, take } = controller({ heartbeatMs: 10 })
  expect(control.canBeat).toBe(true)
  take('data: 1')
  expect(control.canBeat).toBe(false)
  expect(controller({ heartbeatMs: 10 }, { sse: false }).control.canBeat).toBe(false)
})

it('the relay controller reports events when the receiver asked for it, and the response id', () => {
  const { calls, take } = controller({ firstEvents: 2, onResponseId: (id) => void calls.ids.push(id) })
  take('data: {"id":"resp_1"}\n\n')
  take(event(2) + event(3))
  take(event(4))
  take(event(5))
  take(event(6))
  expect(calls.events).toEqual([3, 5])
  expect(calls.ids).toEqual(['resp_1'])
})

it('the relay controller returns an error event for a truncated stream only between events and with room', () => {
  const between = controller()
  between.take(event(1))
  expect(between.control.truncate('reset', true)).toEqual(bytes('data: reset\n\n'))
  expect(between.calls.ends).toMatchObject([
    { end: 'engine_truncated', failure: 'reset', events: 1, bytes: event(1).length },
  ])
  const inside = controller()
  inside.take('data: 1')
  expect(inside.control.truncate('reset', true)).toBeNull()
  expect(controller().control.truncate('reset', false)).toBeNull()
})

it('the relay controller reports one end only', () => {
  const { control, calls } = controller()
  control.settle('lapsed')
  control.settle('complete')
  control.truncate('reset', true)
  expect(calls.ends.map(({ end }) => end)).toEqual(['lapsed'])
})

describe('a relay whose first bytes were read to judge the answer', () => {
  const pieces = fc.array(
    fc.constantFrom(
      'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
      event(1),
      event(2),
      last,
      ': wait\n\n',
      ': ping\n',
      'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n',
      'data: {"error":{"message":"no","code":503}}\n\n',
      'data: [DONE]\n\n',
      'data: half',
    ),
    { maxLength: 9 },
  )
  const splits = fc.array(fc.nat(400), { maxLength: 6 })

  function piecesAt(body: Uint8Array, at: readonly number[]): Uint8Array[] {
    const ends = [...at.filter((one) => one < body.length), body.length].toSorted((a, b) => a - b)
    return ends.map((end, i) => body.subarray(ends[i - 1] ?? 0, end))
  }

  it.each([
    { reads: true, hidesUsage: false },
    { reads: true, hidesUsage: true },
    { reads: false, hidesUsage: false },
  ])(
    'a relay of read bytes passes and reports the same as one that reads them itself ($reads, $hidesUsage)',
    ({ reads, hidesUsage }) => {
      fc.assert(
        fc.property(pieces, splits, fc.nat(400), (events, at, prefixBytes) => {
          const body = bytes(events.join(''))
          const results = [false, true].map((isShared) => {
            const start = new AnswerStart(
              { status: 200, headers: [], sse: true },
              { protocol: chat, isJson: false, isStream: true },
            )
            if (isShared) start.take(body.subarray(0, Math.min(prefixBytes, body.length)))
            const { control, calls } = controller(
              { heartbeatMs: 1 },
              { reads, hidesUsage, start: isShared ? start : null },
            )
            let passed = ''
            const beats: (boolean | null)[] = []
            let taken = 0
            for (const piece of piecesAt(body, at)) {
              const whole = control.takeWhole(piece, 0, piece.length)
              if (whole === 'unread') control.take(piece, (out) => (passed += new TextDecoder().decode(out)))
              else if (whole === 'passed') passed += new TextDecoder().decode(piece)
              taken += piece.length
              beats.push(taken > prefixBytes ? control.canBeat : null)
            }
            const failure = control.end((out) => (passed += new TextDecoder().decode(out)))?.failure
            // An error in the same read as the first output is read before its bytes pass.
            const isFirst = /error|half/.test(events.join('')) ? null : calls.firstBytes
            const sent = control.truncate('reset', true)
            return { passed, beats, failure, isFirst, sent, end: calls.ends[0] }
          })
          expect(results[1]).toEqual(results[0])
        }),
        { numRuns: 500 },
      )
    },
  )

  it('a relay of read bytes gives no heartbeat inside them', () => {
    const start = new AnswerStart(
      { status: 200, headers: [], sse: true },
      { protocol: chat, isJson: false, isStream: true },
    )
    start.take(bytes(event(1)))
    const { control, take } = controller({ heartbeatMs: 1 }, { start })
    expect(control.canBeat).toBe(true)
    take(event(1).slice(0, 9))
    expect(control.canBeat).toBe(false)
    take(event(1).slice(9))
    expect(control.canBeat).toBe(true)
  })
})
