/** LMCache as deployed, with the gateway: lookups at its coordinator, or the gateway in the coordinator's place. */
import { servedModel } from '../engine.ts'
import { registryToken } from '../fleets.ts'
import type { EngineName } from '../engine-spec.ts'
import type { FleetName } from '../fleets.ts'
import { generator } from '../fuzz.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { send, sendJson } from '../http.ts'
import { chunkTokens } from '../lmcache-servers.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { askStream } from './ask-stream.ts'
import type { StreamAnswer } from './ask-stream.ts'
import { direct } from './asks.ts'

/** Four whole chunks and a part of one. */
export const promptTokens = 4 * chunkTokens + 76
export const sides = ['left', 'right'] as const

export function lmcacheRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-lmcache-lookup`,
      says:
        `With lookups at LMCache's coordinator (${kind}), kv_aware and ttft send each prompt to the engine whose ` +
        'LMCache has it, matched by host.',
      run: async (lab) => lookup(lab, kind),
    },
    {
      name: `${kind}-lmcache-down`,
      says:
        `While the coordinator is down (${kind}), the fallback serves every request and the decision names it; ` +
        'lookups resume when it is back.',
      run: async (lab) => down(lab, kind),
    },
    {
      name: `${kind}-lmcache-slow`,
      says:
        `With a coordinator that takes 2 s (${kind}), no request waits longer than the budget of 250 ms, by the ` +
        `gateway's stages.`,
      run: async (lab) => slow(lab, kind),
    },
    {
      name: `${kind}-lmcache-registry`,
      says:
        `If the gateway replaces the coordinator (${kind}), LMCache servers register there, and their events ` +
        'give the same decisions as lookups.',
      run: async (lab) => registry(lab, kind),
    },
  ]
}

/** A prompt that no engine has cached. */
function newPrompt(): number[] {
  const random = generator(Math.floor(Math.random() * 2 ** 32))
  return Array.from({ length: promptTokens }, () => 10 + Math.floor(random() * 1900))
}

export const completion = (prompt: readonly number[]) => ({
  model: servedModel,
  prompt,
  max_tokens: 2,
  temperature: 0,
  ignore_eos: true,
})

async function open(lab: Lab, kind: GatewayKind, fleet: FleetName): Promise<RunningGateway> {
  for (const side of sides) await lab.engine(side)
  const { reports: answer, lookups, coordinatorUrl } = await lab.lmcache()
  answer.target ??= coordinatorUrl
  lookups.target = coordinatorUrl
  lookups.delayMs = 0
  return lab.gateway(kind, fleet)
}

/** Sends each engine its own prompt directly, so that the gateway can find it only through LMCache. */
async function teach(lab: Lab): Promise<Readonly<Record<(typeof sides)[number], readonly number[]>>> {
  const prompts = { left: newPrompt(), right: newPrompt() }
  for (const side of sides) {
    const { status, body } = await send(direct(await lab.engine(side), completion(prompts[side])))
    check(status === 200, `${side} answered ${status}: ${body.toString('utf8').slice(0, 200)}`)
  }
  return prompts
}

export const lookupOf = (prompt: readonly number[]) => ({ token_ids: prompt, model_name: 'models/tiny', world_size: 1 })

/** Chunks of a prompt that an instance holds, from the directory behind `url`. */
async function heldAt(url: string, prompt: readonly number[]): Promise<string[]> {
  const { results } = await sendJson<{ results: { placements: { instance_id: string }[] }[] }>({
    url: new URL(url).origin,
    method: 'POST',
    path: `${new URL(url).pathname.replace(/\/$/, '')}/directory/lookup`,
    body: lookupOf(prompt),
  })
  return results.map(({ placements }) => placements.map(({ instance_id }) => instance_id).join('+'))
}

export async function untilHeld(url: string, prompts: Readonly<Record<string, readonly number[]>>): Promise<void> {
  for (const [side, prompt] of Object.entries(prompts)) {
    let last: readonly string[] = []
    await until(
      async () => {
        last = await heldAt(url, prompt)
        return last.length === 4 && last.every((held) => held === `node-${side}`)
      },
      `the directory to list ${side}'s chunks`,
      { everyMs: 300, limitMs: 20_000 },
    ).catch((error: unknown) => {
      throw new Error(`${(error as Error).message}; it says ${JSON.stringify(last)}`)
    })
  }
}

const ask = (gateway: RunningGateway, prompt: readonly number[], policy: string): Promise<StreamAnswer> =>
  askStream(gateway, { path: '/v1/completions', body: completion(prompt), policy })

/** A prompt that extends a known one, so that the prediction needs more than the engine's own cache. */
const longer = (prompt: readonly number[], round: number): number[] => [
  ...prompt,
  ...Array.from({ length: 20 }, (_, at) => 10 + ((at * 13 + round * 97) % 1900)),
]

async function lookup(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await open(lab, kind, 'coordinator')
  const { lookups, coordinatorUrl } = await lab.lmcache()
  const seen: string[] = []
  for (const policy of ['kv_aware', 'ttft'] as const) {
    const prompts = await teach(lab)
    await untilHeld(coordinatorUrl, prompts)
    // The engines' caches are reset; only LMCache still has the blocks.
    for (const side of sides) await send(direct(await lab.engine(side), undefined, '/reset_prefix_cache'))
    for (const side of sides) {
      // At the first request the gateway may not have the instances yet: it reads them meanwhile.
      const answer = await untilRight(() => ask(gateway, longer(prompts[side], seen.length), policy), side)
      check(
        answer.decision.policy === policy && answer.decision.fallback === null,
        `${policy}: ${answer.decision.policy} decided, ${JSON.stringify(answer.decision.fallback)}`,
      )
      check(
        answer.engine === side,
        `${policy}: a prompt held by ${side} went to ${answer.engine}: ${JSON.stringify(answer.decision.candidates)}`,
      )
      seen.push(`${policy} ${side}: predicted ${answer.decision.predicted_cached_tokens}, reported ${answer.cached}`)
      check(
        answer.cached >= 4 * chunkTokens - 32 && answer.decision.predicted_cached_tokens === 4 * chunkTokens,
        seen.at(-1)!,
      )
    }
  }
  const calls = (path: string) => lookups.passed.filter((line) => line.includes(path) && line.endsWith(' 200')).length
  check(
    calls('/directory/lookup') >= 4 && calls('/instances') >= 1,
    `calls at the coordinator: ${[...new Set(lookups.passed)].join(', ')}`,
  )
  return `${seen.join('; ')}; ${calls('/directory/lookup')} lookups and ${calls('/instances')} looks at the instances`
}

/** Sends at most two requests: the first one may find a gateway that has just started. */
async function untilRight(once: () => Promise<StreamAnswer>, side: EngineName): Promise<StreamAnswer> {
  const answer = await once()
  return answer.engine === side && answer.decision.fallback === null ? answer : once()
}

async function down(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await open(lab, kind, 'coordinator')
  const { lookups, coordinatorUrl } = await lab.lmcache()
  const prompts = await teach(lab)
  await untilHeld(coordinatorUrl, prompts)
  lookups.target = null
  const during: StreamAnswer[] = []
  try {
    for (let round = 0; round < 8; round++)
      during.push(await ask(gateway, longer(prompts.left, 10 + round), 'kv_aware'))
  } finally {
    lookups.target = coordinatorUrl
  }
  const reasons = during.map(
    ({ decision }) =>
      `${decision.policy} (${decision.fallback?.from ?? 'no fallback'}: ${decision.fallback?.reason ?? '-'})`,
  )
  check(
    during.every(({ decision }) => decision.fallback?.from === 'kv_aware'),
    reasons.join(', '),
  )
  const refused = lookups.passed.filter((line) => line.includes('/directory/lookup') && line.endsWith('refused')).length
  // Five failures in a row: no lookup for five seconds.
  const back = await until(
    async () =>
      (await ask(gateway, longer(prompts.left, 30 + Math.floor(Math.random() * 1000)), 'kv_aware')).decision
        .fallback === null,
    'kv_aware to decide again',
    { everyMs: 500, limitMs: 20_000 },
  )
  // A prompt that no fallback has sent to the other engine meanwhile.
  const again = await ask(gateway, longer(prompts.right, 30), 'kv_aware')
  check(
    again.engine === 'right' && again.decision.fallback === null,
    `after it was back, a prompt held by right went to ${again.engine}`,
  )
  return (
    `8 of 8 served by ${[...new Set(reasons)].join(', ')}; ${refused} lookups tried; ${(back / 1000).toFixed(1)} ` +
    's after it was back kv_aware decides again'
  )
}

async function slow(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await open(lab, kind, 'coordinator')
  const { lookups, coordinatorUrl } = await lab.lmcache()
  const prompts = await teach(lab)
  await untilHeld(coordinatorUrl, prompts)
  await until(
    async () =>
      (await ask(gateway, longer(prompts.left, Math.floor(Math.random() * 1000)), 'kv_aware')).decision.fallback ===
      null,
    'kv_aware to decide',
    { everyMs: 500, limitMs: 20_000 },
  )
  lookups.delayMs = 2000
  const during: StreamAnswer[] = []
  try {
    for (let round = 0; round < 8; round++) during.push(await ask(gateway, longer(newPrompt(), round), 'kv_aware'))
  } finally {
    lookups.delayMs = 0
  }
  const waits = during.map(({ decision }) => Math.round(decision.actual?.stages?.['lookup'] ?? NaN))
  const answer =
    `lookup stages ${waits.join(' ')} ms; ` +
    `${[...new Set(during.map(({ decision }) => decision.fallback?.reason ?? 'no fallback'))].join(', ')}`
  // Timers are late on a busy machine, but not by two seconds.
  check(
    waits.every((wait) => wait < 1000) && during.every(({ decision }) => decision.fallback?.from === 'kv_aware'),
    answer,
  )
  return `8 of 8 served; ${answer}`
}

async function registry(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await open(lab, kind, 'registry')
  const { reports, coordinatorUrl } = await lab.lmcache()
  const base = `${gateway.url}/lmcache/lab/${registryToken}`
  const from = reports.passed.length
  reports.target = base
  try {
    // A heartbeat gets "unknown instance; re-register"; the servers get no other notice.
    const registered = await until(
      async () => {
        const { instances } = await sendJson<{ instances: { instance_id: string }[] }>({
          url: gateway.url,
          method: 'GET',
          path: `/lmcache/lab/${registryToken}/instances`,
        })
        return sides.every((side) => instances.some(({ instance_id }) => instance_id === `node-${side}`))
      },
      'both servers to register at the gateway',
      { everyMs: 500, limitMs: 90_000 },
    )
    const prompts = await teach(lab)
    await untilHeld(base, prompts)
    const seen: string[] = []
    for (const side of sides) {
      const answer = await ask(gateway, longer(prompts[side], 200), 'kv_aware')
      seen.push(
        `${side}: by ${answer.engine}, predicted ${answer.decision.predicted_cached_tokens}, reported ${answer.cached}`,
      )
      check(
        answer.engine === side &&
          answer.decision.fallback === null &&
          answer.decision.predicted_cached_tokens === 4 * chunkTokens,
        seen.at(-1)!,
      )
    }
    const lines = reports.passed.slice(from)
    const count = (line: string) => lines.filter((one) => one === line).length
    return (
      `registered after ${(registered / 1000).toFixed(1)} s; ${count('POST /events 200')} event posts accepted, ` +
      `${lines.filter((line) => line.startsWith('POST /events') && !line.endsWith(' 200')).length} refused; ` +
      `${seen.join('; ')}`
    )
  } finally {
    reports.target = coordinatorUrl
  }
}
