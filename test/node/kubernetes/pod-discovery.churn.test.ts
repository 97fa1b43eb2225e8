/** Pods that come and go behind a gateway under load. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { main } from '../../../bin/commands.ts'
import { ownPorts } from '../../own-ports.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { FakeApi } from './fake-api.ts'

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

const PODS = 25

it(`${PODS} pods come and go while clients ask, and no client gets an error`, async () => {
  const gone = new Set<string>()
  const served = new Set<string>()
  const engines = await FakeEngine.open(
    {
      '*': ({ address, method, socket }) => {
        if (gone.has(address)) return void socket.destroy()
        if (method !== 'POST') return { body: { data: [{ id: 'm' }] } }
        served.add(address)
        return { body: { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } } }
      },
    },
    { host: '0.0.0.0' },
  )
  ends.push(() => engines.close())
  const api = new FakeApi()
  ends.push(() => api.close())
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-kubernetes-'))
  ends.push(() => rmSync(folder, { recursive: true }))
  const kubeconfig = {
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
    clusters: [{ name: 'x', cluster: { server: await api.listen() } }],
    users: [{ name: 'x', user: { token: 'secret' } }],
  }
  writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig))
  const addressOf = (at: number) => `127.0.1.${at}`
  const create = (at: number) => api.set({ name: `p${at}`, address: addressOf(at) })
  for (const at of [1, 2, 3, 4]) create(at)
  const url = `http://pods:${engines.port}`
  const engine = { id: 'e', url, discover: 'kubernetes', kubernetes: { selector: 'app=vllm' } }
  const pool = { model: 'm', policy: 'round_robin', engines: [engine] }
  const file = join(folder, 'firstlight.yaml')
  writeFileSync(file, JSON.stringify({ log: { level: 'silent' }, clusters: [{ id: 'c', pools: [pool] }] }))
  const listen = `127.0.0.1:${ownPorts(1)}`
  const over = new AbortController()
  const io = {
    out: () => undefined,
    err: () => undefined,
    env: { KUBECONFIG: join(folder, 'kubeconfig') },
    stop: over.signal,
    stopNow: over.signal,
  }
  const ended = main(['serve', '--config', file, '--listen', listen, '--workers', '1'], io)
  ends.push(() => (over.abort(), ended))
  const ask = () =>
    fetch(`http://${listen}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }),
    }).then(
      async (response) => (await response.text(), response.status),
      () => 0,
    )
  await expect.poll(ask).toBe(200)

  const statuses: number[] = []
  const loaded = new AbortController()
  const client = async () => {
    while (!loaded.signal.aborted) statuses.push(await ask())
  }
  const clients = [client(), client()]
  for (let at = 5; at <= PODS; at += 1) {
    create(at)
    await expect.poll(() => served.has(addressOf(at)), { interval: 5 }).toBe(true)
    // Terminating first, as a kubelet does; the server stops later.
    api.set({ name: `p${at - 4}`, address: addressOf(at - 4), terminating: true })
    if (at > 6) gone.add(addressOf(at - 6))
    api.delete(`p${at - 4}`)
  }
  loaded.abort()
  await Promise.all(clients)
  expect(statuses.filter((status) => status !== 200)).toEqual([])
  expect(served.size).toBe(PODS)
})
