/** Faults of engines in each wire protocol: before output another engine serves; later ones reach the client. */
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { FakeAnswer, Route } from '../kit/fake-answer.ts'
import { EnginePair } from '../kit/engine-pair.ts'
import { runtimeNames, type Runtime } from '../kit/gateway.ts'
import { errorEvents, type ProtocolStream, protocolStreams, streamed, wholeStream } from './protocol-streams.ts'

const JSON_ANSWER = JSON.stringify({
  id: 'c',
  choices: [{ index: 0, message: { content: 'from b' }, text: 'from b', finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 1 },
})

interface ReceivedAnswer {
  readonly status: number
  readonly text: string
  /** The body ended properly. */
  readonly isWhole: boolean
  readonly type: string | null
}

const openPair = (runtime: Runtime): Promise<EnginePair> =>
  EnginePair.open({
    runtime,
    type: 'vllm',
    pool: { observe_share: 1, circuit: { failures: 1000 }, limits: { idle_ms: 1000 } },
  })

async function receive(response: Response): Promise<ReceivedAnswer> {
  const { status } = response
  const type = response.headers.get('content-type')
  let text = ''
  try {
    const decoder = new TextDecoder()
    for await (const piece of response.body ?? []) text += decoder.decode(piece as Uint8Array, { stream: true })
  } catch {
    return { status, text, isWhole: false, type }
  }
  return { status, text, isWhole: true, type }
}

/** Asks until `a` has had the request. Returns the answer and how many failures of `a` were counted. */
async function askA(
  pair: EnginePair,
  path: string,
  body: object,
): Promise<ReceivedAnswer & { readonly failures: () => Promise<number> }> {
  const failures = await pair.failuresOfA()
  const received = await pair.untilA(() =>
    pair.gateway.post(path, { model: 'm', ...body }).then(
      receive,
      // The connection was broken before the client had read the head.
      () => ({ status: 0, text: '', isWhole: false, type: null }),
    ),
  )
  return { ...received, failures }
}

/** What `a` answers before any output, by name. */
function earlyFaults({ opening, name }: ProtocolStream): Readonly<Record<string, FakeAnswer>> {
  const failed = `event: response.failed\ndata: ${JSON.stringify({
    type: 'response.failed',
    response: { status: 'failed', error: { code: 'server_error', message: 'boom' } },
  })}\n\n`
  return {
    'S8: nothing': streamed(''),
    'S8: a comment alone': streamed(': keep-alive\n\n'),
    'O23: its opening, and then the connection breaks': streamed(opening || ': wait\n\n', { end: 'truncate' }),
    'S8: its opening alone': streamed(opening),
    'S8: [DONE] alone': streamed('data: [DONE]\n\n'),
    ...(name === 'responses' ? { 'S9: response.failed after its opening': streamed(opening + failed) } : {}),
    ...Object.fromEntries(
      Object.entries(errorEvents).flatMap(([form, event]) => [
        [`S9, S10: an error ${form}`, streamed(event)],
        [`S9, S10: an error ${form} after its opening`, streamed(`${opening}${event}data: [DONE]\n\n`)],
      ]),
    ),
  }
}

function requestError(code: string) {
  return { code, message: 'Your request is refused.' }
}

/** Errors that put the request at fault, although the type of some is `server_error`. */
const requestErrors = [
  ...['context_length_exceeded', 'invalid_prompt', 'cyber_policy'].map((code) => requestError(code)),
  { code: 'server_error', message: 'Your input exceeds the context window of this model.' },
]

/** The error as each event in which it comes, by name. */
function eventsOf(error: object, { name }: ProtocolStream): readonly (readonly [string, string])[] {
  const failed = { type: 'response.failed', response: { status: 'failed', error } }
  const wrapped = { type: 'error', error: { type: 'server_error', ...error } }
  const events = [wrapped, ...(name === 'responses' ? [failed, { type: 'error', ...error }] : [])]
  return events.map((event) => [JSON.stringify(event), `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`])
}

const DONE = 'data: [DONE]\n\n'

const JSON_TYPE = { 'content-type': 'application/json' }

/** Types of a stream that do not say what it is, by name. */
const unspecificTypes: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'no type': {},
  'the type of any text': { 'content-type': 'text/plain; charset=utf-8' },
}

const documents: Readonly<Record<string, FakeAnswer>> = {
  'status 204': { status: 204 },
  'an error as JSON': {
    headers: JSON_TYPE,
    body: '{"error":{"message":"boom","type":"InternalServerError","code":500}}',
  },
  nothing: { headers: JSON_TYPE, body: '' },
  'an HTML page': {
    headers: { 'content-type': 'text/html' },
    body: '<html><body>Bad gateway</body></html>',
  },
}

export function protocolFaultsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  let pair: EnginePair
  beforeAll(async () => {
    pair = await openPair(runtime)
  })
  afterAll(() => pair.close())

  describe.each(protocolStreams.map((one) => [one.name, one] as const))(`a stream of %s on ${name}`, (_, protocol) => {
    const ask = async (answer: Route, more: object = {}) => {
      pair.answer(answer, streamed(wholeStream(protocol, 'from b')))
      return askA(pair, protocol.path, { ...protocol.body, stream: true, ...more })
    }

    it.each(Object.entries(earlyFaults(protocol)))(
      `a stream of ${protocol.name} on ${name} whose engine sends %s comes from another engine`,
      async (_what, answer) => {
        const { status, text, isWhole, failures } = await ask(answer)
        expect({ status, text, isWhole }).toEqual({ status: 200, text: wholeStream(protocol, 'from b'), isWhole: true })
        await expect.poll(failures).toBe(1)
      },
    )

    it.each(Object.entries(documents))(
      `O4: a stream of ${protocol.name} on ${name} whose engine answers 200 with %s comes from another engine`,
      async (_what, answer) => {
        const { text, failures } = await ask(answer)
        expect(text).toBe(wholeStream(protocol, 'from b'))
        await expect.poll(failures).toBe(1)
      },
    )

    it.each([
      ['and its end', ''],
      ['and [DONE]', 'data: [DONE]\n\n'],
      ['and a comment', ': bye\n\n'],
    ])(`a stream of ${protocol.name} on ${name} with output %s is complete, byte by byte`, async (_what, after) => {
      const sent = wholeStream(protocol, 'from a') + after
      const { text, isWhole, failures } = await ask(streamed(sent))
      expect({ text, isWhole }).toEqual({ text: sent, isWhole: true })
      expect(await failures()).toBe(0)
    })

    it(`a stream of ${protocol.name} on ${name} without its last blank line is complete, byte by byte`, async () => {
      const whole = wholeStream(protocol, 'from a')
      const unmarked = protocol.closing.endsWith(DONE) ? [whole.slice(0, -DONE.length)] : []
      for (const sent of [whole, ...unmarked].map((stream) => stream.trimEnd())) {
        const { text, isWhole, failures } = await ask(streamed(sent))
        expect({ text, isWhole }).toEqual({ text: sent, isWhole: true })
        expect(await failures()).toBe(0)
      }
    })

    it.each(Object.entries(unspecificTypes))(
      `a stream of ${protocol.name} on ${name} with %s is a stream`,
      async (_what, headers) => {
        const sent = wholeStream(protocol, 'from a')
        const whole = await ask({ headers, pieces: [sent] })
        expect(whole).toMatchObject({
          status: 200,
          text: sent,
          isWhole: true,
          type: 'text/event-stream; charset=utf-8',
        })
        expect(await whole.failures()).toBe(0)
        const { isWhole } = await ask({ headers, pieces: [protocol.opening + protocol.delta('one')] })
        expect(isWhole).toBe(false)
      },
    )

    it.each([
      ['closes the connection', 'truncate'],
      ['resets the connection', 'reset'],
      ['stays silent', 'hang'],
    ] as const)(
      `a stream of ${protocol.name} on ${name} whose engine %s in place of the last chunk is complete by its last event`,
      async (_how, end) => {
        const sent = wholeStream(protocol, 'from a')
        const { text, isWhole, failures } = await ask(streamed([sent, 30], { end }))
        expect({ text, isWhole }).toEqual({ text: sent, isWhole: true })
        expect(await failures()).toBe(0)
      },
    )

    it.skipIf(!protocol.closing.endsWith(DONE))(
      `a stream of ${protocol.name} on ${name} without [DONE] is complete by its finish reason, and truncated without one`,
      async () => {
        const sent = wholeStream(protocol, 'from a').replace(DONE, '')
        const { text, isWhole, failures } = await ask(streamed(sent))
        expect({ text, isWhole }).toEqual({ text: sent, isWhole: true })
        expect(await failures()).toBe(0)
        const truncated = await ask(streamed(sent, { end: 'truncate' }))
        expect(truncated.isWhole).toBe(false)
      },
    )

    it(`S20: a stream of ${protocol.name} on ${name} that is compressed is not taken for truncated`, async () => {
      const { text, isWhole, failures } = await ask({
        headers: { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' },
        body: gzipSync(wholeStream(protocol, 'from a')),
      })
      expect({ text, isWhole }).toEqual({ text: wholeStream(protocol, 'from a'), isWhole: true })
      expect(await failures()).toBe(0)
    })

    const { opening, delta, aborted, unfinished, closing, gatewayError } = protocol
    const begun = opening + delta('one') + delta('two')
    const later = Object.entries(errorEvents).map(
      ([form, event]) => [`an error ${form}`, `${event}data: [DONE]\n\n`] as const,
    )
    it.each([
      ...later,
      ...(aborted === null ? [] : [['a finish reason of an engine that gave up', aborted] as const]),
      ...(unfinished === null ? [] : [['no finish reason', unfinished] as const]),
    ])(
      `S11: a stream of ${protocol.name} on ${name} with %s after its output passes as it is, and counts as a failure`,
      async (_what, rest) => {
        const { text, isWhole, failures } = await ask(streamed(begun + rest))
        expect({ text, isWhole }).toEqual({ text: begun + rest, isWhole: true })
        await expect.poll(failures).toBe(1)
      },
    )

    it.each(requestErrors.flatMap((error) => eventsOf(error, protocol)))(
      `a stream of ${protocol.name} on ${name} that begins with %s passes as it is, and is no failure`,
      async (_what, event) => {
        for (const sent of [event, opening + event]) {
          const { status, text, isWhole, failures } = await ask(streamed(sent))
          expect({ status, text, isWhole }).toEqual({ status: 200, text: sent, isWhole: true })
          expect(await failures()).toBe(0)
        }
      },
    )

    it.each(eventsOf(requestError('cyber_policy'), protocol))(
      `a stream of ${protocol.name} on ${name} with %s after its output passes as it is, and is no failure`,
      async (_what, event) => {
        const { text, isWhole, failures } = await ask(streamed(begun + event))
        expect({ text, isWhole }).toEqual({ text: begun + event, isWhole: true })
        expect(await failures()).toBe(0)
      },
    )

    it.each([
      ['after its output', begun],
      ['in its last event', begun + closing.slice(0, -20)],
    ])(`S12: a stream of ${protocol.name} on ${name} that ends %s never looks complete`, async (_what, sent) => {
      const { text, isWhole, failures } = await ask(streamed(sent))
      expect(isWhole).toBe(false)
      expect(text.includes(closing)).toBe(false)
      await expect.poll(failures).toBe(1)
    })

    it(`S12, S13: a stream of ${protocol.name} on ${name} that ends early has the error event of its protocol`, async () => {
      const { text } = await ask(streamed(begun))
      expect(text.slice(begun.length)).toMatch(gatewayError)
    })
  })

  describe(`an answer of JSON on ${name}`, () => {
    it.each(
      protocolStreams.flatMap((protocol) =>
        Object.entries(documents).map(([what, answer]) => [protocol.name, what, protocol, answer] as const),
      ),
    )(
      `O4: a JSON response to %s on ${name} comes from another engine if the first sends %s`,
      async (_protocol, _what, { path, body }, answer) => {
        pair.answer(answer, { headers: JSON_TYPE, body: JSON_ANSWER })
        const { status, text, failures } = await askA(pair, path, body)
        expect({ status, text }).toEqual({ status: 200, text: JSON_ANSWER })
        await expect.poll(failures).toBe(1)
      },
    )

    it.each(protocolStreams.map((protocol) => [protocol.name, protocol] as const))(
      `a JSON response to %s on ${name} with an error of the request passes as it is, and is no failure`,
      async (_protocol, { path, body }) => {
        const error = { ...requestError('context_length_exceeded'), type: 'server_error' }
        for (const document of [{ error }, { id: 'r', status: 'failed', output: [], error }]) {
          const sent = JSON.stringify(document)
          pair.answer({ headers: JSON_TYPE, body: sent }, { headers: JSON_TYPE, body: JSON_ANSWER })
          const { status, text, failures } = await askA(pair, path, body)
          expect({ status, text }).toEqual({ status: 200, text: sent })
          expect(await failures()).toBe(0)
        }
      },
    )
  })
}
