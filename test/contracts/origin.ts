/** Contract of every Origin, with an engine that sends scripted bytes. */
import { chat } from '../../src/protocols/chat.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defaultTimers } from '../../src/timers.ts'
import type { Timers } from '../../src/ports/timers.ts'
import { OriginError, type Origin, type OriginAnswer, type OriginRequest } from '../../src/ports/origin.ts'
import type { RelayResult, RelayOptions } from '../../src/ports/relay.ts'
import {
  chunk,
  DONE_EVENT,
  json,
  LAST_CHUNK,
  SSE_HEAD,
  token,
  USAGE_EVENT,
  utf8,
  type RunReport,
  type Step,
} from '../kit/engine-script.ts'

export interface OriginWorld {
  readonly origin: Origin & { close?(): void }
  readonly engineUrl: string
  readonly controlUrl: string
}

export interface OriginContract {
  open(): Promise<OriginWorld & { close?(): Promise<void> }>
  /** Test title and the reason why this platform cannot pass it. */
  readonly skip?: Readonly<Record<string, string>>
}

interface RelayedStream {
  readonly response: Response
  readonly ended: Promise<RelayResult>
  readonly events: string[]
  readonly settledTimes: () => number
  readonly background: Promise<unknown>[]
}

type RunRequest = Partial<Omit<OriginRequest, 'target' | 'signal'>> & {
  signal?: AbortSignal
  targetHeaders?: readonly string[]
  url?: string
}

let runs = 0

const bytes = (text: string) => Uint8Array.from(text, (c) => c.charCodeAt(0))
const latin1 = (data: Uint8Array) => Array.from(data, (byte) => String.fromCharCode(byte)).join('')

async function failureOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => 'no failure',
    (thrown: unknown) => thrown,
  )
  return error instanceof OriginError ? error.failure : String(error)
}

/** Runs nothing else for longer than a second. */
function standStill(): void {
  const until = Date.now() + 1_200
  while (Date.now() < until);
}

const sse = (...events: string[]): Step[] => [{ send: SSE_HEAD }, ...events.map((event) => ({ send: chunk(event) }))]

function pass(answer: OriginAnswer, options: Partial<RelayOptions> = {}): RelayedStream {
  let settled = 0
  const { promise: ended, resolve: settle } = Promise.withResolvers<RelayResult>()
  const events: string[] = []
  const background: Promise<unknown>[] = []
  const relayOptions: RelayOptions = {
    scope: { background: (work) => void background.push(work), client: null },
    status: answer.status,
    headers: answer.headers,
    protocol: chat,
    observe: true,
    hideUsage: false,
    heartbeatMs: 0,
    idleMs: 5_000,
    firstEvents: 0,
    onEvents: (count) => {
      events.push(`events ${count}`)
      return Infinity
    },
    onFirstByte: () => void events.push('first byte'),
    truncationEvent: (failure) => bytes(`data: {"cut":"${failure}"}\n\n`),
    settled: (end) => {
      settled++
      settle(end)
    },
    ...options,
  }
  return { response: answer.pass(relayOptions), ended, events, settledTimes: () => settled, background }
}

/** Reads to the end. Returns the text and whether the body ended without an error. */
async function drain(
  response: Response,
  read = (_body: string): void => {},
): Promise<{ body: string; clean: boolean }> {
  let body = ''
  try {
    for await (const piece of response.body ?? []) {
      body += latin1(piece as Uint8Array)
      read(body)
    }
    return { body, clean: true }
  } catch {
    return { body, clean: false }
  }
}

export function originContract(name: string, contract: OriginContract): void {
  let world: Awaited<ReturnType<OriginContract['open']>>

  /** One run: a script, the request that carries it, and the engine's record. */
  function open(script: readonly Step[], request: RunRequest = {}) {
    const run = `${name.replaceAll(/\W/g, '')}-${++runs}`
    const { signal = new AbortController().signal, targetHeaders = [], url = world.engineUrl, ...rest } = request
    const send = (): Promise<OriginAnswer> =>
      world.origin.send({
        target: { id: 'e', url, headers: targetHeaders, binding: null },
        method: 'POST',
        path: '/v1/chat/completions',
        body: [bytes('{"model":"m"}')],
        connectMs: 2_000,
        firstByteMs: 5_000,
        protocol: null,
        expectsJson: false,
        expectsStream: false,
        timers: defaultTimers,
        ...rest,
        headers: ['x-run', run, 'x-script', btoa(JSON.stringify(script)), ...(request.headers ?? [])],
        signal,
      })
    /** Opens the gate of the script when all of `text` has been read, because a reset discards unread bytes. */
    const goAfter =
      (text: string) =>
      (body: string): void => {
        if (body.endsWith(text)) void report('go')
      }
    const report = async (wait = ''): Promise<RunReport> =>
      (await fetch(`${world.controlUrl}/runs/${run}/${wait}`)).json() as Promise<RunReport>
    return { send, report, goAfter }
  }

  const unknownSkips = new Set(Object.keys(contract.skip ?? {}))
  const test = (title: string, body: () => Promise<void>) => {
    unknownSkips.delete(title)
    const reason = contract.skip?.[title]
    if (reason === undefined) it(title, body)
    else it.skip(`${title} (${reason})`, () => {})
  }

  describe(`${name} is an Origin`, () => {
    beforeAll(async () => {
      world = await contract.open()
    })
    afterAll(async () => {
      world.origin.close?.()
      await world.close?.()
    })

    describe('the request', () => {
      test('a request to an engine carries method, path, headers and every byte of the body as they are', async () => {
        const body = [bytes('{"n":12345678901234567890, "é":'), bytes(`"${utf8('ü€😀')}" }`)]
        const { send, report } = open([{ send: json('{}') }], {
          path: '/v1/x?y=1',
          headers: ['content-type', 'application/json'],
          body,
        })
        await (await send()).read(1000)
        const seen = await report()
        expect(seen.head.split('\r\n')[0]).toBe('POST /v1/x?y=1 HTTP/1.1')
        expect(seen.head.toLowerCase()).toContain('\r\ncontent-type: application/json')
        expect(seen.head.toLowerCase()).toContain(`\r\ncontent-length: ${seen.body.length}`)
        expect(seen.body).toBe(body.map(latin1).join(''))
      })

      test("a request to an engine lets the engine's own headers win", async () => {
        const { send, report } = open([{ send: json('{}') }], {
          headers: ['x-tier', 'client'],
          targetHeaders: ['authorization', 'Bearer engine', 'x-tier', 'engine'],
        })
        await (await send()).read(1000)
        const { head } = await report()
        expect(head).toMatch(/^authorization: Bearer engine$/im)
        expect(head).toMatch(/^x-tier: engine$/im)
        expect(head).not.toMatch(/^x-tier: client$/im)
      })

      test('a request to an engine goes out without a body as GET', async () => {
        const { send, report } = open([{ send: json('{"ok":true}') }], { method: 'GET', body: null, path: '/health' })
        expect(latin1(await (await send()).read(1000))).toBe('{"ok":true}')
        expect((await report()).head.split('\r\n')[0]).toBe('GET /health HTTP/1.1')
      })
    })

    describe('the answer', () => {
      test('the relay of an answer passes status, headers and bytes, and drops what concerns one hop', async () => {
        const head =
          'HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nX-Kept: yes\r\nX-Hop: no\r\nConnection: keep-alive, x-hop\r\nKeep-Alive: timeout=5\r\nContent-Length: 15\r\n\r\n'
        const { send } = open([{ send: `${head}{"error":"nope"` }])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer)
        expect(answer.status).toBe(404)
        expect(answer.sse).toBe(false)
        expect([...answer.headers]).toEqual(
          expect.arrayContaining(['x-kept', 'yes', 'content-type', 'application/json']),
        )
        for (const hop of ['x-hop', 'connection', 'keep-alive', 'content-length', 'transfer-encoding'])
          expect(answer.headers).not.toContain(hop)
        expect(await drain(passed.response)).toEqual({ body: '{"error":"nope"', clean: true })
        expect(await passed.ended).toMatchObject({ end: 'complete', failure: null, bytes: 15 })
      })

      const corpus = [
        ': keep-alive\n\n',
        token('Hé'),
        token('€😀'),
        'event: x\r\ndata: {"a":1}\r\n\r\n',
        USAGE_EVENT,
        DONE_EVENT,
      ].join('')
      for (const of of [1, 7, 64, 100_000]) {
        test(`the relay of an answer streams the same bytes whether they come in pieces of ${of}`, async () => {
          const { send } = open([{ slices: SSE_HEAD + chunk(corpus) + LAST_CHUNK, of }])
          const answer = await send()
          expect(answer.sse).toBe(true)
          await answer.firstByte()
          const passed = pass(answer)
          expect(await drain(passed.response)).toEqual({ body: corpus, clean: true })
          expect(await passed.ended).toMatchObject({
            end: 'complete',
            failure: null,
            events: 5,
            usage: { promptTokens: 15, completionTokens: 3, cachedTokens: 8 },
            bytes: corpus.length,
          })
        })

        test(`the relay of an answer keeps the usage record back in pieces of ${of}, and still reads it`, async () => {
          const { send } = open([{ slices: SSE_HEAD + chunk(corpus) + LAST_CHUNK, of }])
          const answer = await send()
          await answer.firstByte()
          const passed = pass(answer, { hideUsage: true })
          expect((await drain(passed.response)).body).toBe(corpus.replace(USAGE_EVENT, ''))
          expect((await passed.ended).usage).toEqual({ promptTokens: 15, completionTokens: 3, cachedTokens: 8 })
        })
      }

      test('the relay of an answer passes an error event of the engine like any other', async () => {
        const error = 'data: {"error":{"message":"boom","code":500}}\n\n'
        const { send } = open([...sse(token('a'), error, DONE_EVENT), { send: LAST_CHUNK }])
        const answer = await send()
        await answer.firstByte()
        expect(await drain(pass(answer).response)).toEqual({ body: token('a') + error + DONE_EVENT, clean: true })
      })

      test('reads usage from a body that is no stream', async () => {
        const body =
          '{"id":"x","choices":[{"text":"the \\"usage\\":{ field"}],"usage":{"prompt_tokens":7,"completion_tokens":2},"kv_transfer_params":null}'
        const { send } = open([{ slices: json(body), of: 9 }])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer)
        expect((await drain(passed.response)).body).toBe(body)
        expect((await passed.ended).usage).toEqual({ promptTokens: 7, completionTokens: 2, cachedTokens: null })
      })

      for (const of of [1, 7, 100_000]) {
        test(`the relay of an answer reports the id of a stored response once, in pieces of ${of}`, async () => {
          const { send } = open([{ slices: json('{"id":"resp_0a1b","object":"response"}'), of }])
          const answer = await send()
          await answer.firstByte()
          const ids: string[] = []
          const passed = pass(answer, { onResponseId: (id) => void ids.push(id) })
          await drain(passed.response)
          expect(ids).toEqual(['resp_0a1b'])
        })
      }

      for (const observe of [true, false]) {
        // The client may send the id to another thread or another gateway at once.
        test(`the relay of an answer reports the id of a stored response before the client can read it (observe: ${observe})`, async () => {
          const { send } = open([...sse('data: {"response":{"id":"resp_0a1b"}}\n\n'), { hang: true }])
          const answer = await send()
          await answer.firstByte()
          const ids: string[] = []
          const reader = pass(answer, { observe, onResponseId: (id) => void ids.push(id) }).response.body!.getReader()
          expect(latin1((await reader.read()).value!)).toContain('resp_0a1b')
          expect(ids).toEqual(['resp_0a1b'])
          await reader.cancel()
        })
      }

      test('the relay of an answer skips 100 and 103 on the way to the answer', async () => {
        const { send } = open([
          { send: 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n' },
          { send: json('{"a":1}') },
        ])
        expect(latin1(await (await send()).read(1000))).toBe('{"a":1}')
      })

      test('the relay of an answer ends at once for 204 and for an empty body', async () => {
        for (const head of ['HTTP/1.1 204 No Content\r\n\r\n', 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n']) {
          const { send } = open([{ send: head }])
          const answer = await send()
          await answer.firstByte()
          const passed = pass(answer)
          expect(await drain(passed.response)).toEqual({ body: '', clean: true })
          expect(await passed.ended).toMatchObject({ end: 'complete', bytes: 0 })
        }
      })

      test('the relay of an answer takes the end of the connection for the end of a body without framing', async () => {
        const { send } = open([
          { send: 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n{"a":1}' },
          { fin: true },
        ])
        expect(latin1(await (await send()).read(1000))).toBe('{"a":1}')
      })

      test('the relay of an answer does not follow a redirect', async () => {
        const { send, report } = open([
          {
            send: `HTTP/1.1 307 Temporary Redirect\r\nlocation: ${world.engineUrl}/elsewhere\r\ncontent-length: 0\r\n\r\n`,
          },
        ])
        expect((await send()).status).toBe(307)
        expect((await report()).requests).toBe(1)
      })

      test('the relay of an answer refuses to read more than it is asked to', async () => {
        const { send, report } = open([
          {
            send: `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n${'x'.repeat(5000)}`,
          },
          { hang: true },
        ])
        expect(await failureOf((await send()).read(1000))).toBe('malformed')
        expect((await report('closed')).closed).toBe(true)
      })
    })

    describe('the first byte', () => {
      test('the first byte is not a keep-alive comment', async () => {
        const { send, report } = open([{ send: SSE_HEAD + chunk(': keep-alive\n\n') }, { gate: true }, { reset: true }])
        const failure = failureOf((await send()).firstByte())
        await report('go')
        expect(await failure).toBe('reset')
      })

      test('the first byte is waited for only so long before the head', async () => {
        const { send, report } = open([{ hang: true }], { firstByteMs: 80 })
        expect(await failureOf(send())).toBe('first_byte_timeout')
        expect((await report('closed')).closed).toBe(true)
      })

      test('the first byte is waited for only so long after the head', async () => {
        const { send, report } = open([{ send: SSE_HEAD }, { hang: true }], { firstByteMs: 80 })
        // On a busy machine the head can be late, too.
        expect(await failureOf(send().then((answer) => answer.firstByte()))).toBe('first_byte_timeout')
        expect((await report('closed')).closed).toBe(true)
      })

      test('the first byte may take as long as it likes after it has come', async () => {
        const { send } = open(
          [{ send: SSE_HEAD + chunk(token('a')) }, { waitMs: 200 }, { send: chunk(DONE_EVENT) + LAST_CHUNK }],
          { firstByteMs: 100 },
        )
        const answer = await send()
        await answer.firstByte()
        expect(await drain(pass(answer).response)).toEqual({ body: token('a') + DONE_EVENT, clean: true })
      })
    })

    describe('a broken engine', () => {
      test('a broken engine that nobody can connect to fails at once', async () => {
        const { send } = open([], { url: 'http://127.0.0.1:1' })
        expect(await failureOf(send())).toMatch(/^(connect|reset)$/)
      })

      test('a broken engine that nobody can connect to fails as connect', async () => {
        const { send } = open([], { url: 'http://127.0.0.1:1' })
        expect(await failureOf(send())).toBe('connect')
      })

      test('a broken engine whose name nobody knows fails as connect', async () => {
        const { send } = open([], { url: 'http://no-such-host.invalid' })
        expect(await failureOf(send())).toBe('connect')
      })

      test('a broken engine that resets before its head fails as reset', async () => {
        expect(await failureOf(open([{ reset: true }]).send())).toBe('reset')
      })

      for (const [what, step] of [
        ['reset', { reset: true }],
        ['closed inside its chunks', { fin: true }],
      ] as const) {
        test(`mid-stream (${what}) ends in one error event and never in a clean end`, async () => {
          const { send, goAfter } = open([...sse(token('a'), token('b')), { gate: true }, step])
          const answer = await send()
          await answer.firstByte()
          const passed = pass(answer)
          expect(await drain(passed.response, goAfter(token('b')))).toEqual({
            body: `${token('a')}${token('b')}data: {"cut":"reset"}\n\n`,
            clean: false,
          })
          expect(await passed.ended).toMatchObject({ end: 'engine_truncated', failure: 'reset', events: 2 })
          expect(passed.settledTimes()).toBe(1)
        })
      }

      test('a broken engine that ends cleanly without [DONE] is cut where [DONE] is promised, and passes where it is not', async () => {
        const script = [...sse(token('a')), { send: LAST_CHUNK }]
        for (const checksEnd of [true, false]) {
          const answer = await open(script).send()
          await answer.firstByte()
          const passed = pass(answer, { checksEnd })
          const truncationEvent = checksEnd ? 'data: {"cut":"reset"}\n\n' : ''
          expect(await drain(passed.response)).toEqual({ body: token('a') + truncationEvent, clean: !checksEnd })
          expect((await passed.ended).end).toBe(checksEnd ? 'engine_truncated' : 'complete')
        }
        const whole = await open([...sse(token('a'), DONE_EVENT), { send: LAST_CHUNK }]).send()
        await whole.firstByte()
        expect((await drain(pass(whole, { checksEnd: true }).response)).clean).toBe(true)
      })

      test('in the middle of an event leaves no room for an error event: only the cut', async () => {
        const half = token('b').slice(0, 20)
        const { send, goAfter } = open([...sse(token('a'), half), { gate: true }, { reset: true }])
        const answer = await send()
        await answer.firstByte()
        expect(await drain(pass(answer).response, goAfter(half))).toEqual({ body: token('a') + half, clean: false })
      })

      test('short of its content-length is cut, not ended', async () => {
        const { send } = open([
          { send: 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"a":' },
          { waitMs: 40 },
          { fin: true },
        ])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer)
        expect(await drain(passed.response)).toEqual({ body: '{"a":', clean: false })
        expect((await passed.ended).end).toBe('engine_truncated')
      })

      test('a broken engine that nobody reads ends as the client’s doing after the write limit', async () => {
        const { send, report } = open([...sse(token('a')), { hang: true }])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer, { writeMs: 80 })
        expect(await passed.ended).toMatchObject({ end: 'client_gone', failure: null })
        expect((await report('closed')).closed).toBe(true)
        expect((await drain(passed.response)).clean).toBe(false)
      })

      test('a broken engine that falls silent mid-stream is cut after the idle limit', async () => {
        const { send, report } = open([...sse(token('a')), { hang: true }])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer, { idleMs: 80 })
        expect(await drain(passed.response)).toEqual({
          body: `${token('a')}data: {"cut":"idle_timeout"}\n\n`,
          clean: false,
        })
        expect(await passed.ended).toMatchObject({ end: 'engine_truncated', failure: 'idle_timeout' })
        expect((await report('closed')).closed).toBe(true)
      })

      test('a broken engine that sends while the gateway stands still for longer than the idle limit is whole', async () => {
        const second = { send: chunk(token('b') + DONE_EVENT) }
        const { send } = open([...sse(token('a')), { waitMs: 300 }, second, { send: LAST_CHUNK }])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer, { idleMs: 600 })
        // The wait for the second event has begun by then.
        setTimeout(standStill, 50)
        expect(await drain(passed.response)).toEqual({ body: token('a') + token('b') + DONE_EVENT, clean: true })
      })

      for (const size of ['zz', '-1', '5 5', '123456789012345678901']) {
        test(`a broken engine whose chunk size is ${JSON.stringify(size)} is cut after its first event`, async () => {
          const { send, goAfter } = open([
            ...sse(token('a')),
            { gate: true },
            { send: `${size}\r\nhello\r\n` },
            { waitMs: 200 },
            { send: LAST_CHUNK },
          ])
          const answer = await send()
          await answer.firstByte()
          const { body, clean } = await drain(pass(answer).response, goAfter(token('a')))
          expect(clean).toBe(false)
          expect(body.startsWith(token('a'))).toBe(true)
        })
      }

      for (const blank of [' ', '\t ', ' ;x', ' ; a=b'])
        test(`a broken engine with ${JSON.stringify(blank)} behind a chunk size is whole`, async () => {
          const { send } = open([
            ...sse(token('a')),
            { send: chunk(token('b') + DONE_EVENT).replace('\r\n', `${blank}\r\n`) },
            { send: `0${blank}\r\n\r\n` },
          ])
          const answer = await send()
          await answer.firstByte()
          const { body, clean } = await drain(pass(answer).response)
          expect({ body, clean }).toEqual({ body: token('a') + token('b') + DONE_EVENT, clean: true })
        })

      const heads: Record<string, string> = {
        'both lengths': 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
        'two unlike lengths': 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc',
        'a signed length': 'HTTP/1.1 200 OK\r\ncontent-length: +3\r\n\r\nabc',
        'a blank before the colon': 'HTTP/1.1 200 OK\r\ncontent-length : 3\r\n\r\nabc',
        'a control byte': 'HTTP/1.1 200 OK\r\nx-a: b\x00c\r\ncontent-length: 3\r\n\r\nabc',
        'no HTTP at all': 'SSH-2.0-OpenSSH_9.2\r\n\r\n',
        'a head without end': `HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(200_000)}\r\n\r\n`,
      }
      for (const [what, head] of Object.entries(heads)) {
        test(`a broken engine whose head has ${what} is refused`, async () => {
          const { send } = open([{ send: head }, { waitMs: 100 }, { fin: true }])
          expect(await failureOf(send().then((answer) => answer.firstByte()))).toMatch(/malformed|reset/)
        })
      }
    })

    describe('a client that leaves', () => {
      for (const [when, script] of [
        ['before the head', []],
        ['before the first byte', [{ send: SSE_HEAD }]],
      ] as const) {
        test(`${when} frees the engine`, async () => {
          const client = new AbortController()
          const { send, report } = open([...script, { hang: true }], { signal: client.signal })
          const work = send().then((answer) => answer.firstByte())
          work.catch(() => {})
          await report('arrived')
          client.abort(new Error('client left'))
          await expect(work).rejects.toThrow('client left')
          expect((await report('closed')).closed).toBe(true)
        })
      }

      for (const observe of [true, false]) {
        const how = observe ? 'an observed' : 'a native'
        test(`mid-stream frees the engine of ${how} answer, seen by the signal`, async () => {
          const client = new AbortController()
          const { send, report } = open([...sse(token('a')), { hang: true }], { signal: client.signal })
          const answer = await send()
          await answer.firstByte()
          const passed = pass(answer, { observe })
          const reader = passed.response.body!.getReader()
          await reader.read()
          client.abort(new Error('client left'))
          expect(await passed.ended).toMatchObject({ end: 'client_gone', failure: null })
          expect((await report('closed')).closed).toBe(true)
          expect(passed.settledTimes()).toBe(1)
          await reader.cancel().catch(() => {})
        })

        test(`mid-stream frees the engine of ${how} answer, seen by the stream`, async () => {
          const { send, report } = open([
            ...sse(token('a')),
            { waitMs: 30 },
            ...Array.from({ length: 50 }, () => [{ send: chunk(token('b')) }, { waitMs: 20 }]).flat(),
            { hang: true },
          ])
          const answer = await send()
          await answer.firstByte()
          const passed = pass(answer, { observe })
          const reader = passed.response.body!.getReader()
          await reader.read()
          await reader.cancel()
          expect(await passed.ended).toMatchObject({ end: 'client_gone', failure: null })
          expect((await report('closed')).closed).toBe(true)
          expect(passed.settledTimes()).toBe(1)
        })
      }

      test('before a body that is no stream frees the engine', async () => {
        const client = new AbortController()
        const { send, report } = open(
          [
            { send: 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{' },
            { hang: true },
          ],
          { signal: client.signal },
        )
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer)
        client.abort()
        expect((await passed.ended).end).toBe('client_gone')
        expect((await report('closed')).closed).toBe(true)
      })

      test('and an answer that was discarded free the engine alike', async () => {
        const { send, report } = open([...sse(token('a')), { hang: true }])
        const answer = await send()
        await answer.firstByte()
        answer.discard()
        expect((await report('closed')).closed).toBe(true)
      })
    })

    describe('a native answer', () => {
      test('a native answer passes every byte and counts none of its events', async () => {
        const all = [token('a'), token('b'), USAGE_EVENT, DONE_EVENT]
        const { send } = open([...sse(...all), { send: LAST_CHUNK }])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer, { observe: false })
        expect(await drain(passed.response)).toEqual({ body: all.join(''), clean: true })
        expect(await passed.ended).toMatchObject({ end: 'complete' })
        await Promise.all(passed.background)
      })

      test('a native answer that breaks has no clean end either, and says so in an event', async () => {
        const { send, goAfter } = open([...sse(token('a'), token('b')), { gate: true }, { reset: true }])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer, { observe: false })
        const { body, clean } = await drain(passed.response, goAfter(token('b')))
        expect(clean).toBe(false)
        expect(body.replace(/\n\n\n+/, '\n\n')).toBe(`${token('a')}${token('b')}data: {"cut":"reset"}\n\n`)
        expect(await passed.ended).toMatchObject({ end: 'engine_truncated', failure: 'reset' })
      })

      test('a native answer whose last event came with its first bytes is complete, although its engine then breaks', async () => {
        const all = `${token('a')}data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n${DONE_EVENT}`
        const { send, goAfter } = open([{ send: SSE_HEAD + chunk(all) }, { gate: true }, { reset: true }], {
          protocol: chat,
        })
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer, { observe: false, checksEnd: true })
        expect(await drain(passed.response, goAfter(all))).toEqual({ body: all, clean: true })
        expect(await passed.ended).toMatchObject({ end: 'complete', failure: null })
        await Promise.all(passed.background)
        expect(passed.settledTimes()).toBe(1)
      })

      test('a native answer that nobody can see end keeps its booking no longer than its limit, and passes to its end', async () => {
        const { send, report } = open([
          ...sse(token('a')),
          { gate: true },
          { send: chunk(token('b')) + chunk(DONE_EVENT) + LAST_CHUNK },
        ])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer, { observe: false, nativeMs: 40 })
        expect(await passed.ended).toMatchObject({ end: 'lapsed', failure: null })
        await report('go')
        expect(await drain(passed.response)).toEqual({ body: token('a') + token('b') + DONE_EVENT, clean: true })
        await Promise.all(passed.background)
        expect(passed.settledTimes()).toBe(1)
      })

      test('a native answer that ends in time does not lapse', async () => {
        const { send } = open([...sse(token('a'), DONE_EVENT), { send: LAST_CHUNK }])
        const answer = await send()
        await answer.firstByte()
        const rings = new Set<() => void>()
        const timers: Timers = {
          set: (_ms, ring) => {
            rings.add(ring)
            return { cancel: () => void rings.delete(ring) }
          },
        }
        const background: Promise<unknown>[] = []
        const passed = pass(answer, {
          observe: false,
          nativeMs: 60,
          scope: { background: (work) => void background.push(work), client: null, timers },
        })
        await drain(passed.response)
        await Promise.all(background)
        for (const ring of rings) ring()
        expect(await passed.ended).toMatchObject({ end: 'complete' })
        expect(passed.settledTimes()).toBe(1)
      })
    })

    describe('heartbeats', () => {
      test('heartbeats keep a silent stream warm before its first byte and after it, and break no event', async () => {
        const [start, rest] = [token('ab').slice(0, 15), token('ab').slice(15)]
        const { send, report } = open([
          { send: SSE_HEAD },
          { gate: true },
          { send: chunk(start) },
          { waitMs: 150 },
          { send: chunk(rest) },
          { gate: true },
          { send: chunk(DONE_EVENT) + LAST_CHUNK },
        ])
        const answer = await send()
        const passed = pass(answer, { heartbeatMs: 40 })
        /** Texts that open a gate: a heartbeat before the first byte, and one behind the first event. */
        const awaited = [': ping\n', `${token('ab')}: ping\n`]
        const { body, clean } = await drain(passed.response, (text) => {
          if (awaited[0] === undefined || !text.includes(awaited[0])) return
          awaited.shift()
          void report('go')
        })
        expect(clean).toBe(true)
        expect(body.startsWith(': ping\n')).toBe(true)
        expect(body).toContain(token('ab') + ': ping\n')
        expect(body.replaceAll(': ping\n', '')).toBe(token('ab') + DONE_EVENT)
        expect(passed.events).toEqual(['first byte'])
      })

      test('go on from a wait for the first byte that was under way', async () => {
        const { send } = open([{ send: SSE_HEAD }, { waitMs: 120 }, { send: chunk(token('a')) + LAST_CHUNK }])
        const answer = await send()
        const waiting = answer.firstByte()
        const passed = pass(answer, { heartbeatMs: 30 })
        expect((await drain(passed.response)).body.replaceAll(': ping\n', '')).toBe(token('a'))
        await waiting
        expect(passed.events).toEqual(['first byte'])
      })

      test('heartbeats do not outlive the limit for the first byte', async () => {
        const { send, report } = open([{ send: SSE_HEAD }, { hang: true }], { firstByteMs: 150 })
        const answer = await send()
        const passed = pass(answer, { heartbeatMs: 40 })
        const { body, clean } = await drain(passed.response)
        expect(clean).toBe(false)
        expect(body.replaceAll(': ping\n', '')).toBe('data: {"cut":"first_byte_timeout"}\n\n')
        expect((await report('closed')).closed).toBe(true)
      })
    })

    describe('the connection', () => {
      test('a connection to an engine serves one request after another', async () => {
        const { send, report } = open([{ send: json('{"a":1}') }])
        for (let i = 0; i < 20; i++) await (await send()).read(1000)
        expect(new Set((await report()).connections).size).toBe(1)
      })

      test('a connection to an engine that the engine reset as it was taken again costs the client nothing', async () => {
        const first = open([{ send: json('{}') }, { resetNext: true }])
        await (await first.send()).read(1000)
        const { send } = open([{ send: json('{"ok":1}') }])
        expect(latin1(await (await send()).read(1000))).toBe('{"ok":1}')
      })

      test('a connection to an engine that the engine breaks long after it got a request was no idle one: the request is not repeated', async () => {
        const first = open([{ send: json('{}') }])
        await (await first.send()).read(1000)
        const { send, report } = open([{ waitMs: 1_500 }, { reset: true }])
        expect(await failureOf(send())).toMatch(/reset/)
        expect((await report()).requests).toBe(1)
      })

      test('a connection to an engine with bytes after the end of an answer is not used again', async () => {
        const first = open([{ send: `${json('{"first":1}')}${json('{"smuggled":1}')}` }])
        expect(latin1(await (await first.send()).read(1000))).toBe('{"first":1}')
        const { send } = open([{ send: json('{"second":1}') }])
        expect(latin1(await (await send()).read(1000))).toBe('{"second":1}')
      })

      test('a connection to an engine holds the engine back while the client does not read, and loses nothing', async () => {
        const total = 64 * 1024 * 1024
        const { send, report } = open([
          { send: 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n' },
          { flood: total },
          { send: LAST_CHUNK },
        ])
        const answer = await send()
        await answer.firstByte()
        const passed = pass(answer)
        const reader = passed.response.body!.getReader()
        let got = (await reader.read()).value!.length
        let before = -1
        let sent = (await report()).sentBytes
        while (sent !== before) {
          await new Promise((turn) => setTimeout(turn, 100))
          before = sent
          sent = (await report()).sentBytes
        }
        expect(sent).toBeLessThan(total / 3)
        for (;;) {
          const { done, value } = await reader.read()
          if (done) break
          got += value.length
        }
        expect(got).toBe(total)
        expect((await passed.ended).end).toBe('complete')
      })
    })

    it('the titles of skipped tests are those of tests', () => {
      expect([...unknownSkips]).toEqual([])
    })
  })
}
