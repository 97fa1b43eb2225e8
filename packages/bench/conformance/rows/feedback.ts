/**
 * Caches that are smaller than configured, and engines that restart with an empty cache, detected from responses alone.
 */
import { servedModel } from '../engine.ts'
import type { FleetName } from '../fleets.ts'
import { generator } from '../fuzz.ts'
import type { RunningGateway } from '../gateway.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { askStream } from './ask-stream.ts'
import { digestEngineOf } from './decisions.ts'

/** Cache of the engine `little`. */
const roomBlocks = 200
const blockTokens = 32
/** 16 blocks: a dozen of these prompts fill the cache. */
const promptTokens = 16 * blockTokens + 8

export const feedbackRows: readonly Row[] = [
  {
    name: 'node-little-cache',
    says:
      `For an engine with ${roomBlocks} blocks, the gateway knows the size and predicts evictions: 9 of 10 ` +
      'prompts within one block.',
    run: async (lab) => knownSize(lab),
  },
  {
    name: 'node-little-cache-learned',
    says:
      'With a configured size ten times too large, the gateway corrects it from responses: after 80 prompts, ' +
      'half of them evicted, its estimate is at most 1.5 times the real size, and 3 of 4 predictions are right ' +
      'within one block.',
    run: async (lab) => learnedSize(lab),
  },
  {
    name: 'node-restart',
    says: 'An engine restart is detected by three missing prompts; its prefix index is then cleared.',
    run: async (lab) => restart(lab),
  },
]

interface CachedTokens {
  readonly predicted: number
  readonly cached: number
}

/** Prompts that no other row uses. */
function prompts(seed: number, count: number): number[][] {
  const random = generator(seed + Math.floor(Date.now() / 1000))
  return Array.from({ length: count }, () =>
    Array.from({ length: promptTokens }, () => 10 + Math.floor(random() * 1900)),
  )
}

async function ask(gateway: RunningGateway, prompt: readonly number[]): Promise<CachedTokens> {
  const { cached, decision } = await askStream(gateway, {
    path: '/v1/completions',
    body: { model: servedModel, prompt, max_tokens: 1, temperature: 0, ignore_eos: true },
  })
  return { predicted: decision.predicted_cached_tokens ?? 0, cached }
}

const within = ({ predicted, cached }: CachedTokens): boolean => Math.abs(predicted - cached) <= blockTokens
const show = (list: readonly CachedTokens[]): string =>
  list.map(({ predicted, cached }) => `${predicted}/${cached}`).join(' ')

async function opened(lab: Lab, fleet: FleetName): Promise<RunningGateway> {
  await lab.engine('little')
  return lab.gateway('node', fleet)
}

async function knownSize(lab: Lab): Promise<string> {
  const gateway = await opened(lab, 'little')
  const list = prompts(1, 24)
  for (const prompt of list) await ask(gateway, prompt)
  const { cache_blocks } = await digestEngineOf(gateway, 'little')
  // The last ones are cached, the first ones are evicted, and requests for those evict more.
  const seen: CachedTokens[] = []
  for (const at of [23, 22, 21, 20, 19, 18, 0, 23, 1, 22, 2, 21, 3, 4, 5, 20, 6, 7, 8, 9])
    seen.push(await ask(gateway, list[at]!))
  const right = seen.filter(within).length
  const result =
    `size known: ${cache_blocks}; ${right} of ${seen.length} within ${blockTokens} tokens (predicted/reported: ` +
    `${show(seen)})`
  check(cache_blocks === roomBlocks && right >= 0.9 * seen.length, result)
  return result
}

async function learnedSize(lab: Lab): Promise<string> {
  const gateway = await opened(lab, 'little-misled')
  const list = prompts(2, 24)
  for (const prompt of list) await ask(gateway, prompt)
  const rounds: CachedTokens[][] = []
  const random = generator(7)
  for (let round = 0; round < 5; round++) {
    const seen: CachedTokens[] = []
    // Random ones: half are cached. Losses between hits mean eviction, not a restart.
    for (let step = 0; step < 16; step++) seen.push(await ask(gateway, list[Math.floor(random() * list.length)]!))
    rounds.push(seen)
  }
  const { learned } = await digestEngineOf(gateway, 'little')
  const wrong = rounds.map((seen) => seen.filter((one) => !within(one)).length)
  const result =
    `${learned.cache_blocks} blocks estimated, ${roomBlocks} there; wrong by more than a block: ` +
    `${wrong.map((count) => `${count} of 16`).join(', ')}; taken for a restart ${learned.restarts} times`
  check(wrong[0]! > 0, `no prompt was predicted too high: ${result}`)
  check(learned.cache_blocks !== null && learned.cache_blocks <= 1.5 * roomBlocks && wrong.at(-1)! <= 4, result)
  return result
}

async function restart(lab: Lab): Promise<string> {
  const gateway = await opened(lab, 'little')
  const list = prompts(3, 8)
  for (const prompt of list) await ask(gateway, prompt)
  const before: CachedTokens[] = []
  for (const prompt of list) before.push(await ask(gateway, prompt))
  const { restarts } = (await digestEngineOf(gateway, 'little')).learned
  await lab.restart('little')
  // It is up; the gateway checks twice a second.
  const again = prompts(4, 1)[0]!
  const back = await until(
    () =>
      ask(gateway, again).then(
        () => true,
        () => false,
      ),
    'the gateway to find it again',
    { everyMs: 100 },
  )
  const after: CachedTokens[] = []
  for (const prompt of list) after.push(await ask(gateway, prompt))
  const wrong = after.filter((one) => !within(one)).length
  const found = (await digestEngineOf(gateway, 'little')).learned.restarts - restarts
  const result =
    `before ${show(before)}; after ${show(after)} (predicted/reported); ${wrong} too high, restarts counted ` +
    `${found}; found again after ${Math.round(back)} ms`
  check(
    before.every(({ cached }) => cached >= promptTokens - blockTokens),
    `the prompts were not cached before: ${result}`,
  )
  check(
    after.every(({ cached }) => cached === 0),
    `the engine came back with a cache: ${result}`,
  )
  check(wrong <= 3 && found >= 1, result)
  return result
}
