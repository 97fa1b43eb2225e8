/** More clients than the process can serve: new ones are refused with a response, and no engine's circuit opens. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import net, { type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { gatewayKeys } from '../../contracts/gateway.ts'
import { connectionsFor } from '../../../src/platform/node/inbound/connection-guard.ts'
import { jsonAnswer, openBothServers, RawClient, requestText, type BothServers } from './both-servers.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { until } from '../../wait.ts'

describe('limits.connections', () => {
  let both: BothServers
  const clients: RawClient[] = []
  afterEach(async () => {
    for (const client of clients.splice(0)) client.socket.destroy()
    await both.close()
  })

  async function connect(): Promise<RawClient> {
    const client = new RawClient(both.port)
    clients.push(client)
    await once(client.socket, 'connect')
    return client
  }

  it('limits.connections refuses further clients with 503 and the reason, until others leave', async () => {
    both = await openBothServers({ connections: 2 })
    const [first, second] = [await connect(), await connect()]
    for (const client of [first, second])
      expect((await client.send(requestText('gateway.test')).answer()).head).toMatch(/ 200 /)
    const third = await connect()
    const refused = await third.send(requestText('gateway.test')).answer()
    expect(refused.head).toMatch(/^http\/1\.1 503 [^]*retry-after: 1/)
    expect(JSON.parse(refused.body)).toMatchObject({ error: { code: 'connections_full', type: 'server_error' } })
    await until(() => third.closed)
    expect(both.posts).toHaveLength(2)
    expect(both.lines.filter(({ event }) => event === 'connections_full')).toHaveLength(1)
    // Admitted clients continue, and a client that leaves makes room.
    expect((await second.send(requestText('gateway.test')).answer()).head).toMatch(/ 200 /)
    first.socket.destroy()
    await until(async () => {
      const next = await connect()
      return / 200 /.test((await next.send(requestText('gateway.test')).answer()).head)
    })
    second.socket.destroy()
    for (const client of clients) client.socket.destroy()
    await until(async () => {
      const answer = await fetch(`http://127.0.0.1:${both.port}/metrics`, {
        headers: { authorization: `Bearer ${gatewayKeys.admin}` },
      })
      return /^firstlight_rejected_requests_total\{reason="connections_full"\} [1-9]/m.test(await answer.text())
    })
  })

  it('limits.connections reserves one engine descriptor per client by default', () => {
    for (const descriptors of [256, 1024, 65_536, 524_288])
      for (const threads of [1, 2, 7]) {
        const served = connectionsFor(descriptors, threads)
        expect(served).toBeGreaterThanOrEqual(16)
        if (served > 16) expect(2 * served * threads).toBeLessThan(descriptors)
      }
    expect(connectionsFor(null, 1)).toBe(Infinity)
  })
})

describe.skipIf(process.platform !== 'linux')('a gateway with 256 file descriptors and 500 clients at once', () => {
  let engine: FakeEngine
  let gateway: ChildProcess
  let folder: string
  const sockets = new Set<Socket>()
  afterEach(async () => {
    gateway.kill('SIGKILL')
    for (const socket of sockets) socket.destroy()
    await engine.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function open(limits: object): Promise<{ port: number; lines: string[] }> {
    engine = await FakeEngine.open({
      'GET *': { body: '' },
      // Long enough for all clients to be connected at once.
      'POST *': () => setTimeout(500, { raw: jsonAnswer() }),
    })
    folder = mkdtempSync(join(tmpdir(), 'firstlight-descriptors-'))
    const file = join(folder, 'firstlight.yaml')
    const pools = [{ model: 'm', engines: [{ id: 'e0', url: engine.url }] }]
    writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', limits, clusters: [{ id: 'c', pools }] }))
    const bin = fileURLToPath(new URL('../../../bin/firstlight.mjs', import.meta.url))
    gateway = spawn('sh', ['-c', 'ulimit -n 256; exec "$@"', 'sh', process.execPath, bin, 'serve', '--config', file], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const lines: string[] = []
    for (const stream of [gateway.stdout!, gateway.stderr!])
      createInterface(stream).on('line', (line) => void lines.push(line))
    await until(() => lines.some((line) => line.includes('"event":"listening"')))
    const { url: at } = JSON.parse(lines.find((line) => line.includes('"event":"listening"'))!) as { url: string }
    return { port: Number(new URL(at).port), lines }
  }

  const BODY = '{"model":"m","messages":[{"role":"user","content":"hi"}]}'
  /** Status and error code of one request on its own connection; null: closed without a response. */
  function ask(port: number): Promise<{ readonly status: number; readonly text: string } | null> {
    return new Promise((resolve) => {
      const socket = net.connect(port, '127.0.0.1')
      let text = ''
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('data', (bytes) => (text += bytes.toString('latin1')))
      socket.on('close', () => resolve(text === '' ? null : { status: Number(text.slice(9, 12)), text }))
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`,
      )
    })
  }

  it.each([
    ['by itself', {}, 'connections_full'],
    ['where it is configured to take more than it can', { connections: 10_000 }, 'gateway_limit_reached'],
  ])(
    'a gateway with 256 file descriptors and 500 clients at once opens no circuit, and serves or refuses with the reason: %s',
    async (_title, limits, code) => {
      const { port } = await open(limits)
      const answers = await Promise.all(Array.from({ length: 500 }, () => ask(port)))
      const answered = answers.filter((answer) => answer !== null)
      const odd = answered.filter(({ status, text }) => status !== 200 && !text.includes(`"code":"${code}"`))
      expect(odd).toEqual([])
      // If the configuration exceeds the limit of the system, clients can hold all descriptors, and none is left for
      // engines.
      if (code === 'connections_full') {
        expect(answered).toHaveLength(500)
        expect(answered.filter(({ status }) => status === 200).length).toBeGreaterThan(0)
      }
      expect((await ask(port))?.status).toBe(200)
      const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      expect(metrics).toMatch(/^firstlight_engine_failures_total\{[^}]*\} 0$/m)
      const opened = /^firstlight_engine_circuit\{[^}]*state="open"[^}]*\} (\d)/m.exec(metrics)
      expect(opened?.[1] ?? '0').toBe('0')
    },
  )
})
