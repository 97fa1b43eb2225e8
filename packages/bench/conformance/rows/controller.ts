/** Lookups at LMCache's legacy controller, as the package has it. */
import { fileURLToPath } from 'node:url'
import { engineKey } from '../engine.ts'
import { startGateway } from '../gateway.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { generator } from '../fuzz.ts'
import { freePorts, send } from '../http.ts'
import { chunkTokens } from '../lmcache-servers.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { askStream } from './ask-stream.ts'
import { engines } from './asks.ts'
import { completion, promptTokens } from './lmcache.ts'

export const controllerRows: readonly Row[] = (['node', 'worker'] as const).map((kind) => ({
  name: `${kind}-lmcache-controller`,
  says:
    `With lookups at the legacy lmcache_controller (${kind}), kv_aware sends each prompt to the engine whose ` +
    'instance announced its chunks, and a prompt that none has is served too.',
  run: async (lab: Lab) => lookups(lab, kind),
}))

const worker = fileURLToPath(new URL('../python/lmcache_worker.py', import.meta.url))
/** Chunk hashes depend on it. */
const env = { PYTHONHASHSEED: '0', LMCACHE_TRACK_USAGE: 'false', DO_NOT_TRACK: '1', NO_GPU_EXT: '1' }

async function lookups(lab: Lab, kind: GatewayKind): Promise<string> {
  const fleet = await engines(lab)
  const [port, pull, replyPort] = await freePorts(3)
  const url = `http://127.0.0.1:${port}`
  const controller = lab.processes.start({
    what: 'lmcache controller',
    command: [
      lab.environment.bin('lmcache_controller'),
      '--host',
      '127.0.0.1',
      '--port',
      String(port),
      '--monitor-ports',
      JSON.stringify({ pull, reply: replyPort }),
    ],
    folder: lab.environment.folder,
    env,
  })
  const random = generator(Date.now() % 1e9)
  const newPrompt = (): number[] => Array.from({ length: promptTokens }, () => 10 + Math.floor(random() * 1900))
  const prompts = new Map(fleet.map(({ name }) => [name, newPrompt()]))
  let gateway: RunningGateway | null = null
  try {
    const health = { url, method: 'GET', path: '/openapi.json', limitMs: 2000 } as const
    const isUp = async (): Promise<boolean> => (await send(health).catch(() => null))?.status === 200
    await until(isUp, 'the controller', { limitMs: 180_000 })
    const instances = Object.fromEntries(prompts)
    await lab.processes.finish({
      what: 'announce chunks to the controller',
      command: [lab.environment.python, worker, JSON.stringify({ pull, reply: replyPort, instances })],
      folder: lab.environment.folder,
      env,
      limitS: 180,
    })
    gateway = await startGateway({
      kind,
      name: `${kind}-controller`,
      processes: lab.processes,
      note: lab.note,
      engines: fleet,
      each: {},
      document: {},
      pool: {
        policy: 'kv_aware',
        lmcache: { controller: url, budget_ms: 1000 },
        engines: fleet.map(({ name, url: at }) => ({ id: name, url: at, key: engineKey, lmcache_instance: name })),
      },
    })
    const results: string[] = []
    for (const [name, prompt] of prompts) results.push(await found(gateway, prompt, name))
    const { decision } = await askStream(gateway, { path: '/v1/completions', body: completion(newPrompt()) })
    check(
      decision.fallback !== null || decision.predicted_cached_tokens === 0,
      'a prompt that no instance has is found',
    )
    return `${results.join('; ')}; a new prompt: ${decision.fallback?.reason ?? 'no tokens'}`
  } finally {
    await gateway?.stop()
    await controller.stop()
  }
}

async function found(gateway: RunningGateway, prompt: readonly number[], name: string): Promise<string> {
  const { engine, decision } = await askStream(gateway, { path: '/v1/completions', body: completion(prompt) })
  const results = `${engine}: predicted ${decision.predicted_cached_tokens}`
  check(decision.policy === 'kv_aware' && decision.fallback === null, `${results}, ${decision.fallback?.reason}`)
  const whole = promptTokens - (promptTokens % chunkTokens)
  check(engine === name && decision.predicted_cached_tokens === whole, `${results}, not ${name} and ${whole}`)
  return results
}
