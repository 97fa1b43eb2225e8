/** Requests that must be refused, or counted: malformed HTTP, a priority without the right to it, deep nesting. */
import { chat, connect, documentOf, MODEL, waitFor } from './client.ts'
import type { Figure } from './figure.ts'
import { Site, type Gateway } from './processes.ts'

const NESTING = 100_000
const HOST = 'host: 127.0.0.1\r\n'
const MALFORMED: readonly string[] = [
  'GARBAGE\r\n\r\n',
  `GET / HTTP/1.1\r\n${HOST}x : y\r\n\r\n`,
  `POST /v1/chat/completions HTTP/1.1\r\n${HOST}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}`,
  `POST /v1/chat/completions HTTP/1.1\r\n${HOST}content-length: 2\r\ncontent-length: 3\r\n\r\n{}`,
  `POST /v1/chat/completions HTTP/1.1\r\n${HOST}content-length: 2\r\nexpect: 200-maybe\r\n\r\n{}`,
  `GET / HTTP/1.1\r\n${HOST}x: ${'y'.repeat(40_000)}\r\n\r\n`,
]
const REPEATS = 4

export async function refused(): Promise<Figure[]> {
  const site = new Site()
  try {
    const engine = await site.engines(1)
    const key = 'client-key-of-no-use-elsewhere'
    const gateway = await site.gateway(documentOf(engine.urls, { keys: [{ name: 'client', secret: key }] }))
    const open = await site.gateway(documentOf(engine.urls))
    const malformed = await malformedFigures(open)
    await chat(gateway.port, { key, more: { priority: -100 } })
    const { priority } = await engine.stats()
    const nested = await chat(gateway.port, { key, more: { metadata: 'NESTED' } }).then(() => nestedBody(gateway, key))
    return [
      ...malformed,
      {
        attack: '"priority": -100 from a key without overrides',
        figure: 'priority_passed',
        value: priority === -100 ? 1 : 0,
        goal: 0,
        note: `the engine received ${JSON.stringify(priority)}`,
      },
      {
        attack: `a body nested ${NESTING.toLocaleString('en-US')} deep`,
        figure: 'nesting_passed',
        value: nested === 200 ? 1 : 0,
        goal: 0,
        note: `answered ${nested}`,
      },
    ]
  } finally {
    await site.stop()
  }
}

async function malformedFigures(gateway: Gateway): Promise<Figure[]> {
  const counted = async (): Promise<number> =>
    (await gateway.metrics()).reduce(
      (total, { name, value }) => (/reject|refus|malformed|client_error/.test(name) ? total + value : total),
      0,
    )
  const [countedBefore, linesBefore] = [await counted(), gateway.log.length]
  const statuses = new Map<string, number>()
  let sent = 0
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    for (const text of MALFORMED) {
      const client = await connect(gateway.port)
      client.socket.write(text)
      await waitFor(() => client.text() !== '' || client.closed(), 3_000)
      const status = client.text().slice(9, 12) || 'closed'
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      client.socket.destroy()
      sent++
    }
  }
  await waitFor(async () => (await counted()) - countedBefore >= sent, 1_000, 100)
  const [newCounts, newLines] = [(await counted()) - countedBefore, gateway.log.length - linesBefore]
  const answered = [...statuses].map(([status, count]) => `${count} x ${status}`).join(', ')
  return [
    {
      attack: `${sent} malformed requests`,
      figure: 'uncounted',
      value: Math.max(0, sent - newCounts),
      goal: 0,
      note: `${answered}; ${newLines} log lines`,
    },
  ]
}

async function nestedBody(gateway: Gateway, key: string): Promise<number> {
  const body = `{"model":"${MODEL}","messages":[{"role":"user","content":"hi"}],"metadata":${'['.repeat(NESTING)}${']'.repeat(NESTING)}}`
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body,
  })
  await response.body?.cancel()
  return response.status
}
