import { describe, expect, it } from 'vitest'
import type { Alert } from '../../src/ports/alerts.ts'
import type { Log } from '../../src/ports/log.ts'
import { Webhook } from '../../src/telemetry/webhook.ts'
import { turns } from '../wait.ts'

const alert = (engine: string): Alert => ({
  event: 'engine_down',
  cluster: 'c',
  pool: 'm',
  engine,
  state: 'wedged',
  since: '2026-11-28T12:00:00.000Z',
  hurt: { requests: 3, keys: 2, models: 1, key_names: ['ada', 'bob'], model_names: ['m'] },
  did: 'It gets no new requests.',
  next: 'Restart it.',
})

interface Post {
  readonly at: number
  readonly headers: Readonly<Record<string, string>>
  readonly engines: readonly (string | null)[]
}

/** A webhook in virtual time. `answer` returns the status of a post; null: no contact. */
function webhookWith(answer: () => number | null, secret: string | null = null) {
  let now = 0
  const due: { at: number; fire: () => void }[] = []
  const posts: Post[] = []
  const warned: object[] = []
  const webhook = new Webhook(
    { url: 'http://hook.example/x', secret },
    {
      now: () => now,
      log: { warn: (event: string, fields: object) => void warned.push({ event, ...fields }) } as unknown as Log,
      timers: {
        set: (ms, fire) => {
          const timer = { at: now + ms, fire }
          due.push(timer)
          return { cancel: () => void due.splice(due.indexOf(timer), 1) }
        },
      },
      services: {
        post: async (_url, headers, body) => {
          const { alerts } = JSON.parse(body) as { alerts: Alert[] }
          posts.push({ at: now, headers, engines: alerts.map(({ engine }) => engine) })
          const status = answer()
          if (status === null) throw new Error('refused')
          return status
        },
      },
    },
  )
  const pass = async (until: number): Promise<void> => {
    for (;;) {
      await turns(5)
      const next = due.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0]
      if (next === undefined) break
      due.splice(due.indexOf(next), 1)
      now = next.at
      next.fire()
    }
    now = until
  }
  return { webhook, posts, warned, pass }
}

describe('a webhook', () => {
  it('a webhook gets the alerts of one second in one post, with the secret', async () => {
    const { webhook, posts, pass } = webhookWith(() => 200, 'token')
    webhook.raise(alert('a'))
    await pass(500)
    webhook.raise(alert('b'))
    await pass(5_000)
    expect(posts).toMatchObject([{ at: 1_000, engines: ['a', 'b'], headers: { authorization: 'Bearer token' } }])
  })

  it('a webhook gets later alerts in another post', async () => {
    const { webhook, posts, pass } = webhookWith(() => 204)
    webhook.raise(alert('a'))
    await pass(5_000)
    webhook.raise(alert('b'))
    await pass(10_000)
    expect(posts.map(({ engines }) => engines)).toEqual([['a'], ['b']])
    expect(posts[0]!.headers).not.toHaveProperty('authorization')
  })

  it.each([503, 429, null])(
    'a webhook is tried four times if it answers %s, and alerts that come meanwhile follow',
    async (status) => {
      const { webhook, posts, warned, pass } = webhookWith(() => (posts.length > 4 ? 200 : status))
      webhook.raise(alert('a'))
      await pass(4_000)
      webhook.raise(alert('b'))
      await pass(60_000)
      expect(posts.map(({ at, engines }) => [at, ...engines])).toEqual([
        [1_000, 'a'],
        [3_000, 'a'],
        [8_000, 'a'],
        [23_000, 'a'],
        [23_000, 'b'],
      ])
      expect(warned.map((line) => 'gives_up' in line && line.gives_up)).toEqual([false, false, false, true])
    },
  )

  it('a webhook is not tried again if it refuses the alert', async () => {
    const { webhook, posts, warned, pass } = webhookWith(() => 404)
    webhook.raise(alert('a'))
    await pass(60_000)
    expect(posts).toHaveLength(1)
    expect(warned).toMatchObject([{ event: 'webhook_failed', status: 404, gives_up: true }])
  })

  it('a webhook keeps the newest thousand alerts while it does not answer', async () => {
    const { webhook, posts, pass } = webhookWith(() => 200)
    for (let at = 0; at < 1_005; at++) webhook.raise(alert(`e${at}`))
    await pass(60_000)
    expect(posts.flatMap(({ engines }) => engines)).toHaveLength(1_000)
    expect(posts[0]!.engines[0]).toBe('e5')
  })
})
