/** Clients that never read the response: the engine's slot is free after `limits.write_ms`. */
import type { Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import {
  chatBody,
  servers,
  openBothServers,
  RawClient,
  requestText,
  type BothServers,
} from '../node/inbound/both-servers.ts'
import { gatewayKeys } from '../contracts/gateway.ts'
import { token } from '../kit/sse.ts'
import { until } from '../wait.ts'

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const EVENT = token('x'.repeat(64 * 1024))
const CHUNK = `${EVENT.length.toString(16)}\r\n${EVENT}\r\n`

let both: BothServers
let client: RawClient
afterEach(async () => {
  client.socket.destroy()
  await both.close()
})

/** Writes for as long as the other side reads. */
function streamForever(socket: Socket): void {
  const more = (): void => {
    if (!socket.destroyed) socket.write(CHUNK, () => setImmediate(more))
  }
  socket.write(HEAD)
  more()
}

async function metric(name: string): Promise<string | undefined> {
  const answer = await fetch(`http://127.0.0.1:${both.port}/metrics`, {
    headers: { authorization: `Bearer ${gatewayKeys.admin}` },
  })
  return (await answer.text()).split('\n').find((line) => line.startsWith(name))
}

describe.each(Object.entries(servers))('a client that never reads, on the %s server', (_server, host) => {
  it('a client that never reads is cut off, and the engine is free and not to blame', async () => {
    both = await openBothServers({ write_ms: 200 })
    let engineSocket: Socket | null = null
    both.answer = (socket) => {
      engineSocket = socket
      streamForever(socket)
    }
    client = new RawClient(both.port)
    client.socket.pause()
    client.send(requestText(host, { body: chatBody('Hello', { stream: true }) }))
    await until(() => engineSocket !== null && engineSocket.destroyed)
    await until(() => both.lines.some(({ event }) => event === 'write_timeout'))
    await until(() => both.lines.some(({ result }) => result === 'client_gone'))
    expect(both.lines.filter(({ event }) => event === 'attempt_failed')).toEqual([])
    expect(await metric('firstlight_rejected_requests_total{reason="write_timeout"}')).toMatch(/ 1$/)
    expect(await metric('firstlight_engine_failures_total')).toMatch(/ 0$/)
  })
})
