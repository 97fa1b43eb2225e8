/** Clients that ask for long streams and never read them, on an engine with two places. */
import { setTimeout as sleep } from 'node:timers/promises'
import net from 'node:net'
import { chat, documentOf, MODEL } from './client.ts'
import type { Figure } from './figure.ts'
import { Site } from './processes.ts'

const WRITE_MS = 5_000
const LIMIT_S = 20
/** `limits.write_ms`, some time to notice, and the second between two tries. */
const GOAL_S = 8
const LONG = 'ttft=10 tokens=2000 pad=60000'

export async function silentReaders(): Promise<Figure[]> {
  const site = new Site()
  const sockets: net.Socket[] = []
  try {
    const { urls } = await site.engines(1)
    const gateway = await site.gateway(
      documentOf(urls, { engine: { max_in_flight: 2 }, limits: { write_ms: WRITE_MS } }),
    )
    const body = JSON.stringify({ model: MODEL, stream: true, messages: [{ role: 'user', content: 'hi' }], user: LONG })
    for (let at = 0; at < 2; at++) {
      const socket = net.connect({ port: gateway.port, host: '127.0.0.1' })
      socket.on('error', () => {})
      socket.pause()
      socket.write(
        'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ' +
          `application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      )
      sockets.push(socket)
    }
    await sleep(1_000)
    const began = performance.now()
    const seconds = (): number => Math.round((performance.now() - began) / 100) / 10
    let refused = 0
    while (seconds() < LIMIT_S) {
      const { status } = await chat(gateway.port, { limitMs: 5_000 })
      if (status === 200) break
      refused++
      await sleep(1_000)
    }
    const freed = seconds()
    return [
      {
        attack: `two clients that never read, max_in_flight 2, write_ms ${WRITE_MS}`,
        figure: 'slot_freed_s',
        value: freed,
        goal: GOAL_S,
        note:
          freed >= LIMIT_S ? `not freed within ${LIMIT_S} s` : `${refused} requests of another client refused before`,
      },
    ]
  } finally {
    for (const socket of sockets) socket.destroy()
    await site.stop()
  }
}
