/** Pools of engines found by name, over sockets: a split by patterns, and one name in two pools. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { main } from '../../../bin/commands.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { ownPorts } from '../../own-ports.ts'

interface ReceivedRequest {
  readonly address: string
  readonly port: number
  readonly body: Readonly<Record<string, unknown>>
}

let addresses: Readonly<Record<string, readonly string[]>>
let requests: ReceivedRequest[]
let folder: string
const ends: (() => unknown)[] = []

beforeEach(() => {
  requests = []
  folder = mkdtempSync(join(tmpdir(), 'firstlight-discovery-'))
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  rmSync(folder, { recursive: true })
})

/**
 * A server on every address of this machine: an engine at each address, which reports the transfer parameters it
 * received.
 */
async function serveEngines(): Promise<number> {
  const engine = await FakeEngine.open(
    {
      'POST *': ({ address, json }) => {
        requests.push({ address, port: engine.port, body: json })
        const left = {
          do_remote_prefill: true,
          do_remote_decode: false,
          remote_engine_id: address,
          remote_block_ids: [1],
          remote_host: address,
          remote_port: 5600,
        }
        return {
          body: { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 }, kv_transfer_params: left },
        }
      },
    },
    { host: '0.0.0.0' },
  )
  ends.push(() => engine.close())
  return engine.port
}

async function serveGateway(pools: readonly object[]): Promise<string> {
  const file = join(folder, 'firstlight.yaml')
  const listen = `127.0.0.1:${ownPorts(1)}`
  const each = pools.map((pool) => ({ policy: 'round_robin', discover_interval_ms: 100, ...pool }))
  writeFileSync(file, JSON.stringify({ log: { level: 'silent' }, clusters: [{ id: 'c', pools: each }] }))
  const over = new AbortController()
  const io = {
    out: () => undefined,
    err: () => undefined,
    env: {},
    stop: over.signal,
    stopNow: over.signal,
    lookup: async (name: string) => addresses[name] ?? [],
  }
  const ended = main(['serve', '--config', file, '--listen', listen, '--workers', '1'], io)
  ends.push(() => (over.abort(), ended))
  await expect
    .poll(() =>
      fetch(`http://${listen}/health`).then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(200)
  return `http://${listen}`
}

async function ask(url: string, model: string): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }),
  })
  await response.text()
  return response.status
}

/** Addresses of the engines that serve six requests. */
async function round(url: string, model: string): Promise<readonly string[]> {
  requests = []
  for (let at = 0; at < 6; at += 1) if ((await ask(url, model)) !== 200) return ['refused']
  return [...new Set(requests.map(({ address, port }) => `${address}:${port}`))].sort()
}

it('prefill and decode engines behind two names share each request, also those that come later', async () => {
  const port = await serveEngines()
  addresses = { 'prefill.example': ['127.0.0.1'], 'decode.example': ['127.0.0.2'] }
  const patterns = (['prefill', 'decode'] as const).map((role) => ({
    id: role[0],
    role,
    url: `http://${role}.example:${port}`,
    discover: 'dns',
  }))
  const url = await serveGateway([{ model: 'm', engines: patterns }])
  expect(await ask(url, 'm')).toBe(200)
  expect(requests.map(({ address }) => address)).toEqual(['127.0.0.1', '127.0.0.2'])
  expect(requests[0]!.body).toMatchObject({ max_tokens: 1, kv_transfer_params: { do_remote_decode: true } })
  expect(requests[1]!.body['kv_transfer_params']).toMatchObject({ do_remote_prefill: true, remote_host: '127.0.0.1' })
  addresses = { ...addresses, 'decode.example': ['127.0.0.3'] }
  await expect.poll(() => round(url, 'm')).toEqual([`127.0.0.1:${port}`, `127.0.0.3:${port}`])
  const legs = requests.map(({ address, body }) => [
    address,
    (body['kv_transfer_params'] as ReceivedRequest['body'])['remote_host'] ?? null,
  ])
  expect(legs).toEqual(
    Array.from({ length: 6 }, () => [
      ['127.0.0.1', null],
      ['127.0.0.3', '127.0.0.1'],
    ]).flat(),
  )
})

it('one name in two pools, each with its own port, is resolved for both', async () => {
  const [one, other] = [await serveEngines(), await serveEngines()]
  addresses = { 'engines.example': ['127.0.0.1', '127.0.0.2'] }
  const poolOf = (model: string, port: number) => ({
    model,
    engines: [{ id: model, url: `http://engines.example:${port}`, discover: 'dns' }],
  })
  const url = await serveGateway([poolOf('m', one), poolOf('n', other)])
  expect(await round(url, 'm')).toEqual([`127.0.0.1:${one}`, `127.0.0.2:${one}`])
  expect(await round(url, 'n')).toEqual([`127.0.0.1:${other}`, `127.0.0.2:${other}`])
  addresses = { 'engines.example': ['127.0.0.2', '127.0.0.3'] }
  await expect.poll(() => round(url, 'm')).toEqual([`127.0.0.2:${one}`, `127.0.0.3:${one}`])
  expect(await round(url, 'n')).toEqual([`127.0.0.2:${other}`, `127.0.0.3:${other}`])
})
