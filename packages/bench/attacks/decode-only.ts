/** The prefill engine of a split pool dies with 60 clients in flight; the decode engine is idle and healthy. */
import { setTimeout as sleep } from 'node:timers/promises'
import { chat, documentOf, failures, summary } from './client.ts'
import type { Figure } from './figure.ts'
import { Site } from './processes.ts'

const CLIENTS = 60

export async function decodeOnly(): Promise<Figure[]> {
  const site = new Site()
  try {
    const [prefill, decode] = [await site.engines(1), await site.engines(1)]
    const engines = [
      { id: 'p0', url: prefill.urls[0], role: 'prefill' },
      { id: 'd0', url: decode.urls[0], role: 'decode' },
    ]
    const gateway = await site.gateway(documentOf([], { pool: { engines, split: { mode: 'always' } } }))
    const clients = () =>
      Array.from({ length: CLIENTS }, () => chat(gateway.port, { user: 'prefill=2000 ttft=50 tokens=3 itl=10' }))
    await chat(gateway.port, { user: 'prefill=20 ttft=20' })
    const waiting = clients()
    await sleep(1_000)
    await prefill.kill()
    const inFlight = await Promise.all(waiting)
    const next = await Promise.all(clients())
    return [
      {
        attack: 'prefill engine dies: 60 clients in flight',
        figure: 'decode_only_refused',
        value: failures(inFlight).length,
        goal: 0,
        note: summary(inFlight),
      },
      {
        attack: 'prefill engine dies: the next 60 clients',
        figure: 'decode_only_refused_next',
        value: failures(next).length,
        goal: 0,
        note: summary(next),
      },
    ]
  } finally {
    await site.stop()
  }
}
