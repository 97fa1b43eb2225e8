/** Total size of request bodies (`limits.buffered_bytes`), on any runtime. */
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { gatewayDocument, gatewayKeys } from './gateway.ts'

export interface BodySubject {
  readonly send: (request: Request) => Promise<Response>
  close(): Promise<unknown>
}

const MIB = 1024 * 1024
const ORIGIN = 'https://gateway.test'
const chat = '/v1/chat/completions'
const broad = { authorization: `Bearer ${gatewayKeys.broad}` }
const text = new TextEncoder()

/** A request whose body continues when the test sends more. */
class Upload {
  readonly answer: Promise<Response | null>
  #controller!: ReadableStreamDefaultController<Uint8Array>

  constructor(send: BodySubject['send'], path = chat, headers: Record<string, string> = {}) {
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (this.#controller = controller) })
    // An aborted request has no response.
    this.answer = send(
      new Request(ORIGIN + path, {
        method: 'POST',
        headers: { ...broad, ...headers },
        body,
        duplex: 'half',
      } as RequestInit),
    ).catch(() => null)
  }

  write(bytes: number): this {
    for (let left = bytes; left > 0; left -= 65_536)
      this.#controller.enqueue(text.encode(' '.repeat(Math.min(left, 65_536))))
    return this
  }

  end(last = ''): this {
    if (last !== '') this.#controller.enqueue(text.encode(last))
    this.#controller.close()
    return this
  }

  breakOff(): void {
    this.#controller.error(new Error('gone'))
  }
}

const post = (body: string, headers: Record<string, string> = broad, path = chat): Request =>
  new Request(ORIGIN + path, { method: 'POST', headers, body })

/** `open` serves the document; nothing listens at the address of its engine. */
export function bodyMemoryContract(
  name: string,
  open: (document: Record<string, unknown>) => Promise<BodySubject>,
): void {
  let subject: BodySubject
  const uploads: Upload[] = []
  const upload = (path?: string, headers?: Record<string, string>): Upload => {
    const one = new Upload(subject.send, path, headers)
    uploads.push(one)
    return one
  }

  async function metric(pattern: string): Promise<number> {
    const answer = await subject.send(
      new Request(`${ORIGIN}/metrics`, { headers: { authorization: `Bearer ${gatewayKeys.admin}` } }),
    )
    return Number(new RegExp(`^${pattern} (\\d+)$`, 'm').exec(await answer.text())?.[1] ?? 0)
  }
  const buffered = () => metric('firstlight_buffered_bytes')
  const refused = () => metric('firstlight_rejected_requests_total\\{reason="buffers_full"\\}')
  async function until(truth: (bytes: number) => boolean): Promise<void> {
    while (!truth(await buffered())) await new Promise((resolve) => setTimeout(resolve, 5))
  }

  beforeAll(async () => {
    subject = await open({
      ...gatewayDocument(['http://127.0.0.1:9']),
      limits: { body_bytes: 2 * MIB, buffered_bytes: 4 * MIB, max_json_cost: 10 * MIB },
    })
  })
  afterEach(async () => {
    for (const one of uploads.splice(0)) {
      try {
        one.breakOff()
      } catch {
        // It has ended.
      }
      await one.answer
    }
    await until((bytes) => bytes === 0)
  })
  afterAll(() => subject.close())

  describe(`the bodies of ${name}`, () => {
    it('together beyond the limit get 503 with a retry time, and room again after others have ended', async () => {
      const before = await refused()
      const held = [upload().write(1.4 * MIB), upload().write(1.4 * MIB)]
      await until((bytes) => bytes >= 2.7 * MIB)
      const late = await upload().write(1.2 * MIB).answer
      expect(late!.status).toBe(503)
      expect(late!.headers.get('retry-after')).toBe('1')
      expect(late!.headers.get('x-should-retry')).toBeNull()
      expect(await late!.json()).toMatchObject({
        error: {
          type: 'server_error',
          code: 'request_buffers_full',
          message: expect.stringContaining('limits.buffered_bytes'),
        },
      })
      expect(await refused()).toBe(before + 1)
      for (const one of held) expect((await one.end('{}').answer)!.status).toBe(400)
      expect(
        (await upload()
          .write(1.2 * MIB)
          .end('{}').answer)!.status,
      ).toBe(400)
    })

    it('the bodies leave room for small ones if large ones fill it', async () => {
      upload().write(1.4 * MIB)
      upload().write(1.4 * MIB)
      await until((bytes) => bytes >= 2.7 * MIB)
      expect((await upload().write(1.2 * MIB).answer)!.status).toBe(503)
      expect((await subject.send(post(`${' '.repeat(200_000)}{}`))).status).toBe(400)
    })

    it('the bodies count uploads of files, too, and those of a declared length', async () => {
      const form = { 'content-type': 'multipart/form-data; boundary=B' }
      upload('/v1/audio/transcriptions', form).write(1.4 * MIB)
      upload('/v1/audio/transcriptions', form).write(1.4 * MIB)
      await until((bytes) => bytes >= 2.7 * MIB)
      expect((await upload('/v1/audio/transcriptions', form).write(1.2 * MIB).answer)!.status).toBe(503)
      expect((await subject.send(post(' '.repeat(1.2 * MIB)))).status).toBe(503)
    })

    it('the bodies are all released when all requests have ended, in any way', async () => {
      const kinds: Readonly<Record<string, () => Promise<unknown>>> = {
        unserved: () =>
          subject.send(
            post(JSON.stringify({ model: 'qwen', messages: [{ role: 'user', content: 'x'.repeat(5_000) }] })),
          ),
        stream: () => subject.send(post(JSON.stringify({ model: 'qwen', stream: true, messages: [] }))),
        broken: () => subject.send(post('{"model":')),
        unknown: () => subject.send(post('{"model":"gpt-9"}')),
        empty: () => subject.send(post('')),
        keyless: () => subject.send(post('{}', {})),
        form: () =>
          subject.send(
            post(
              `--B\r\ncontent-disposition: form-data; name="model"\r\n\r\nqwen\r\n--B--`,
              { ...broad, 'content-type': 'multipart/form-data; boundary=B' },
              '/v1/audio/transcriptions',
            ),
          ),
        brokenForm: () =>
          subject.send(
            post('--B', { ...broad, 'content-type': 'multipart/form-data; boundary=B' }, '/v1/audio/transcriptions'),
          ),
        dryRun: () =>
          subject.send(
            post(
              JSON.stringify({ model: 'qwen', messages: [] }),
              { authorization: `Bearer ${gatewayKeys.admin}` },
              '/v1/firstlight/route',
            ),
          ),
        events: () =>
          subject.send(
            post('{"pools":[]}', { authorization: `Bearer ${gatewayKeys.admin}` }, '/v1/firstlight/kv-events'),
          ),
        chunked: () => upload().write(300_000).end('{}').answer,
        tooLong: () => upload().write(2.1 * MIB).answer,
        left: async () => {
          const one = upload().write(300_000)
          await new Promise((resolve) => setTimeout(resolve, 3))
          one.breakOff()
          await one.answer
        },
      }
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.constantFrom(...Object.keys(kinds)), { minLength: 1, maxLength: 12 }),
          async (script) => {
            await Promise.all(
              script.map(async (kind) => ((await kinds[kind]!()) as Response | null | undefined)?.arrayBuffer()),
            )
            await until((bytes) => bytes === 0)
          },
        ),
        { numRuns: 15 },
      )
    })
  })
}
