/** Limits per key, on any runtime. Nothing listens at the address of the engine. */
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import type { BodySubject } from './body-memory.ts'
import { gatewayDocument, gatewayKeys } from './gateway.ts'

const CHAT = 'https://gateway.test/v1/chat/completions'

export function keyLimitsContract(
  name: string,
  open: (document: Record<string, unknown>) => Promise<BodySubject>,
): void {
  let subject: BodySubject | null = null
  afterEach(async () => {
    await subject?.close()
    subject = null
  })

  async function start(limits: object, defaults?: object): Promise<void> {
    const document = gatewayDocument(['http://127.0.0.1:9'])
    const [narrow, broad] = document['keys'] as object[]
    subject = await open({
      ...document,
      keys: [{ ...narrow, limits }, broad],
      ...(defaults === undefined ? {} : { key_limits: defaults }),
    })
  }

  const ask = (key: keyof typeof gatewayKeys = 'narrow', more: object = {}): Promise<Response> =>
    subject!.send(
      new Request(CHAT, {
        method: 'POST',
        headers: { authorization: `Bearer ${gatewayKeys[key]}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'qwen', messages: [{ role: 'user', content: 'Hello' }], ...more }),
      }),
    )

  async function statuses(count: number, key?: keyof typeof gatewayKeys): Promise<number[]> {
    const found: number[] = []
    for (let at = 0; at < count; at++) {
      const response = await ask(key)
      found.push(response.status)
      await response.text()
    }
    return found
  }

  describe(`limits per key on ${name}`, () => {
    it('limits per key refuse the requests of a key beyond its limit, and no others', async () => {
      await start({ requests_per_min: 2 })
      const first = await statuses(2)
      expect(first).not.toContain(429)
      expect(await statuses(2)).toEqual([429, 429])
      expect(await statuses(4, 'broad')).not.toContain(429)
    })

    it('limits per key name the limit and the time to wait in OpenAI’s format', async () => {
      await start({ requests_per_min: 1, tokens_per_min: 100_000 })
      await statuses(1)
      const response = await ask()
      expect(response.status).toBe(429)
      expect(await response.json()).toMatchObject({
        error: {
          type: 'rate_limit_error',
          code: 'rate_limit_exceeded',
          message: expect.stringMatching(/limit of 1 requests per minute\. Try again in (?:\d+s|1m\ds)\./) as string,
        },
      })
      const header = (suffix: string) => response.headers.get(`x-ratelimit-${suffix}`)
      expect(header('limit-requests')).toBe('1')
      expect(header('remaining-requests')).toBe('0')
      expect(header('reset-requests')).toMatch(/^(?:\d+s|1m\ds)$/)
      expect(header('limit-tokens')).toBe('100000')
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    })

    it('limits per key reserve tokens by the output that a request may have', async () => {
      await start({ tokens_per_min: 1_000 })
      // It is admitted although it alone may exceed the limit. Without an engine it used nothing.
      expect((await ask('narrow', { max_tokens: 5_000 })).status).not.toBe(429)
      // Its tokens are given back behind its response.
      await until(async () => (await ask('narrow', { max_tokens: 900 })).status !== 429)
    })

    it('limits per key of all keys apply where a key has none of its own', async () => {
      await start({ requests_per_min: 3 }, { requests_per_min: 1 })
      expect((await statuses(4)).filter((status) => status === 429)).toHaveLength(1)
      expect((await statuses(3, 'broad')).filter((status) => status === 429)).toHaveLength(2)
    })
  })
}
