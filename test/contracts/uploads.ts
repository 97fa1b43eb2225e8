/** Audio uploads from the official client to simulated engines and back, on any runtime. */
import { OpenAI, toFile } from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { ownPorts } from '../own-ports.ts'
import { until } from '../wait.ts'
import { type RunningGateway, runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

const KEY = 'client-key-1'
const ADMIN = 'admin-key-2'

interface Chunk {
  readonly object: string
  readonly choices: readonly { readonly delta: { readonly content: string }; readonly finish_reason?: string }[]
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number }
}

const chunksOf = (text: string): Chunk[] =>
  text
    .split('\n\n')
    .filter((record) => record.startsWith('data: {'))
    .map((record) => JSON.parse(record.slice(6)) as Chunk)
const spoken = (chunks: readonly Chunk[]): string =>
  chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')

export function uploadsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  let fleet: RunningFleet
  let subject: RunningGateway
  let client: OpenAI

  /** Audio of `seconds` at 128 kbit/s; the engine measures it in characters. */
  const sound = (seconds: number) =>
    toFile(
      Uint8Array.from({ length: seconds * 16_000 }, (_, i) => ((i * 7919) >>> 5) & 127),
      'a.mp3',
    )
  const { signal: never } = new AbortController()

  async function upload(
    fields: Readonly<Record<string, string>>,
    {
      seconds = 1,
      path = 'transcriptions',
      headers = {},
      signal = never,
    }: { seconds?: number; path?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Response> {
    const form = new FormData()
    form.set('file', await sound(seconds))
    for (const [field, value] of Object.entries({ model: 'ear', ...fields })) form.set(field, value)
    return fetch(`${subject.url}/v1/audio/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, ...headers },
      body: form,
      signal,
    })
  }

  /** Resolves when no request is booked. */
  async function idle(): Promise<void> {
    await until(async () => {
      const view = await fetch(`${subject.url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${ADMIN}` } })
      const { pools } = (await view.json()) as { pools: readonly { bookings: number }[] }
      return pools.every(({ bookings }) => bookings === 0)
    })
  }

  beforeAll(async () => {
    fleet = await startFleet({ engines: 2, model: 'sim', profile: 'test', port: ownPorts(3) })
    subject = await startRuntime(runtime, {
      version: Date.now(),
      keys: [{ name: 'clients', secret: KEY }],
      admin: { secret: ADMIN },
      limits: { heartbeat_ms: 100 },
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: 'sim',
              aliases: ['ear'],
              observe_share: 1,
              retry: { min_per_s: 100 },
              engines: fleet.urls.map((url, i) => ({ id: `e${i}`, url })),
            },
          ],
        },
      ],
    })
    client = new OpenAI({ apiKey: KEY, baseURL: `${subject.url}/v1`, maxRetries: 0 })
  })
  afterEach(() => {
    for (const engine of fleet.engines) engine.setFault(null)
  })
  afterAll(async () => {
    await subject.close()
    await fleet.close()
  })

  describe(`an upload of sound through a gateway on ${name}`, () => {
    it('an upload of sound is transcribed equally with and without streaming', async () => {
      const file = await sound(70)
      const whole = await client.audio.transcriptions.create({ file, model: 'ear', max_completion_tokens: 8 } as never)
      expect(whole).toMatchObject({
        text: expect.stringMatching(/^( \w+){24}$/),
        usage: { type: 'duration', seconds: 70 },
      })
      const chunks: Chunk[] = []
      for await (const chunk of (await client.audio.transcriptions.create({
        file,
        model: 'ear',
        stream: true,
        max_completion_tokens: 8,
      } as never)) as unknown as AsyncIterable<Chunk>)
        chunks.push(chunk)
      expect(chunks.every(({ object }) => object === 'transcription.chunk')).toBe(true)
      expect(spoken(chunks)).toBe(whole.text)
    })

    it('an upload of sound is translated', async () => {
      expect(await client.audio.translations.create({ file: await sound(1), model: 'sim' })).toEqual({
        text: expect.stringMatching(/\w/),
      })
      const chunks = chunksOf(await (await upload({ stream: 'true' }, { path: 'translations' })).text())
      expect(chunks[0]?.object).toBe('translation.chunk')
    })

    it('an upload of sound returns its segments', async () => {
      const verbose = await client.audio.transcriptions.create({
        file: await sound(40),
        model: 'ear',
        response_format: 'verbose_json',
      })
      expect(verbose).toMatchObject({
        duration: 40,
        segments: [
          { id: 0, start: 0, end: 30 },
          { id: 1, start: 30, end: 40 },
        ],
      })
    })

    it('an upload of sound names the engine that served it, and reaches the engine as a stream of the pool’s model', async () => {
      const response = await upload(
        { stream: '1', stream_include_usage: 'yes' },
        { headers: { 'x-request-id': 'heard-1' } },
      )
      const text = await response.text()
      expect(response.headers.get('x-firstlight-engine')).toMatch(/^e[01]$/)
      expect(response.headers.get('x-firstlight-decision')).not.toBeNull()
      expect(chunksOf(text).at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 1500 } })
      expect(
        text
          .trimEnd()
          .split('\n\n')
          .filter((record) => !record.startsWith(':'))
          .at(-1),
      ).toBe('data: [DONE]')
      const seen = fleet.engines
        .flatMap(({ log }) => log.recent)
        .find(({ headers }) => headers['x-request-id'] === 'heard-1')
      expect(seen?.body).toMatch(/name="model"\r\n\r\nsim\r\n/)
      await idle()
      const request = await (
        await fetch(`${subject.url}/v1/firstlight/requests/heard-1`, { headers: { authorization: `Bearer ${ADMIN}` } })
      ).json()
      expect(request).toMatchObject({
        request: { path: '/v1/audio/transcriptions', status: 200 },
        decision: { prompt_tokens: 1500, token_source: 'bytes' },
      })
    })

    it('an upload of sound spreads over the engines, and leaves no booking behind', async () => {
      const engines = new Set(
        (await Promise.all(Array.from({ length: 6 }, () => upload({})))).map(({ headers }) =>
          headers.get('x-firstlight-engine'),
        ),
      )
      expect([...engines].toSorted()).toEqual(['e0', 'e1'])
      await idle()
    })

    it('an upload of sound goes to another engine completely if the first one fails', async () => {
      for (const fault of [
        { kind: 'status', status: 500 },
        { kind: 'reset', after: 0 },
      ] as const) {
        fleet.engines[0]!.setFault(fault)
        const answers = await Promise.all(Array.from({ length: 4 }, () => upload({ stream: 'true' }, { seconds: 5 })))
        for (const answer of answers) {
          expect([answer.status, answer.headers.get('x-firstlight-engine')]).toEqual([200, 'e1'])
          expect(await answer.text()).toContain('data: [DONE]')
        }
      }
      expect(fleet.engines[0]!.log.requests).toBeGreaterThan(0)
      await idle()
    })

    it('an upload of sound has its silence filled with comments', async () => {
      for (const engine of fleet.engines) engine.setFault({ kind: 'freeze' })
      const answer = await upload({ stream: 'true', max_completion_tokens: '2' })
      let text = ''
      for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
        text += piece
        // The engines are silent until a comment has come.
        for (const engine of fleet.engines) engine.setFault(null)
      }
      expect(text).toMatch(/^: ping\n/)
      expect(spoken(chunksOf(text))).not.toBe('')
    })

    it('ends in an error if its engine omits the end, and leaves no booking', async () => {
      for (const engine of fleet.engines) engine.setFault({ kind: 'cut', after: 3 })
      const reader = (await upload({ stream: 'true' })).body!.getReader()
      let text = ''
      await expect(
        (async () => {
          for (let read = await reader.read(); !read.done; read = await reader.read())
            text += new TextDecoder().decode(read.value)
        })(),
      ).rejects.toThrow()
      expect(chunksOf(text)).toHaveLength(4)
      expect(text).toContain('engine_stream_truncated')
      await idle()
    })

    it('an upload of sound leaves no booking if the client disconnects', async () => {
      const leave = new AbortController()
      const reader = (
        await upload({ stream: 'true', max_completion_tokens: '4000' }, { signal: leave.signal })
      ).body!.getReader()
      await reader.read()
      leave.abort()
      await idle()
    })

    it('an upload of sound is refused by its engine in the engine’s words', async () => {
      const response = await upload({ response_format: 'srt' })
      expect(response.status).toBe(400)
      expect(await response.text()).toContain('Currently only support response_format')
    })
  })
}
