/** Uploads that never end: what they take together, and whether another client is served meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises'
import { chat, connect, documentOf, MODEL, summary, waitFor, type Answer } from './client.ts'
import { mib, type Figure } from './figure.ts'
import { Site } from './processes.ts'

const UPLOADS = 20
const SENT_BYTES = 30_000_000
/** Once and a half the default of `limits.buffered_bytes`: buffers grow, and so does the heap. */
const GOAL_MIB = 384
const DECLARED_BYTES = 33_000_000

export async function memory(): Promise<Figure[]> {
  return [...(await unfinished('declared')), ...(await unfinished('chunked'))]
}

async function unfinished(framing: 'declared' | 'chunked'): Promise<Figure[]> {
  const site = new Site()
  try {
    const { urls } = await site.engines(1)
    const gateway = await site.gateway(documentOf(urls))
    await chat(gateway.port)
    const before = gateway.rssBytes
    const text = `{"model":"${MODEL}","prompt":"${'x'.repeat(SENT_BYTES)}`
    const length = framing === 'declared' ? `content-length: ${DECLARED_BYTES}` : 'transfer-encoding: chunked'
    const head =
      'POST /v1/completions HTTP/1.1\r\nhost: ' +
      '127.0.0.1\r\ncontent-type: ' +
      `application/json\r\n${length}\r\n\r\n`
    const bytes = Buffer.from(
      head + (framing === 'declared' ? text : `${(DECLARED_BYTES - 1).toString(16)}\r\n${text}`),
    )
    const clients = await Promise.all(Array.from({ length: UPLOADS }, () => connect(gateway.port)))
    for (const { socket } of clients) socket.write(bytes)
    await waitFor(
      () =>
        clients.every(
          ({ socket, text: answered, closed }) => socket.writableLength === 0 || answered() !== '' || closed(),
        ),
      15_000,
    )
    // Bytes in the kernel's buffers arrive.
    await sleep(500)
    const others: Answer[] = await Promise.all(
      Array.from({ length: 10 }, () => chat(gateway.port, { limitMs: 10_000 })),
    )
    const growth = mib(gateway.rssBytes === null || before === null ? null : gateway.rssBytes - before)
    const refused = clients.filter(({ text: answered }) => answered().startsWith('HTTP/1.1 503')).length
    for (const { socket } of clients) socket.destroy()
    const attack = `${UPLOADS} unfinished uploads of 30 MB, ${framing}`
    return [
      {
        attack,
        figure: 'rss_growth_mib',
        value: growth,
        goal: GOAL_MIB,
        note: `${refused} of ${UPLOADS} uploads refused with 503; 10 other clients: ${summary(others)}`,
      },
    ]
  } finally {
    await site.stop()
  }
}
