/** Real engines in development mode that are put to sleep and woken by a request. */
import type { RealEngine } from '../engine.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { send, sendJson } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { direct, engines } from './asks.ts'
import type { StreamAnswer } from './ask-stream.ts'
import { asAdmin } from './decisions.ts'
import { askFor, cachedOf, freshPrompt, isExact } from './fresh-prompt.ts'

/** Requests while one engine sleeps. */
const DURING = 8

export function wakeRow(kind: GatewayKind): Row {
  return {
    name: `${kind}-wake`,
    says:
      `An engine that sleeps (\`/sleep\`) gets no requests (${kind}). When all sleep, a request wakes one ` +
      '(`wake: on_demand`). Cached tokens are predicted exactly before and after, since sleep clears the cache.',
    run: (lab) => sleepAndWake(lab, kind),
  }
}

interface EngineView {
  readonly id: string
  readonly asleep: boolean
}

async function viewOf(gateway: RunningGateway): Promise<readonly EngineView[]> {
  const { pools } = await asAdmin<{ pools: { engines: EngineView[] }[] }>(gateway, '/v1/firstlight/fleet')
  return pools[0]!.engines
}

async function command(engine: RealEngine, path: string): Promise<void> {
  const { status, body } = await send(direct(engine, {}, path))
  check(status === 200, `${engine.name} ${path}: ${status} ${body.toString('utf8').slice(0, 200)}`)
}

const isAsleep = async ({ url }: RealEngine): Promise<boolean> =>
  (await sendJson<{ is_sleeping: boolean }>({ url, method: 'GET', path: '/is_sleeping' })).is_sleeping

/** Milliseconds until the gateway sees that these engines, and no others, sleep. */
const untilSeen = (gateway: RunningGateway, asleep: readonly string[]): Promise<number> =>
  until(
    async () =>
      (await viewOf(gateway))
        .filter((one) => one.asleep)
        .map(({ id }) => id)
        .toSorted()
        .join() === asleep.toSorted().join(),
    `the gateway to see that ${asleep.join(', ') || 'no engine'} sleeps`,
    { limitMs: 60_000 },
  )

async function sleepAndWake(lab: Lab, kind: GatewayKind): Promise<string> {
  const both = await engines(lab)
  const gateway = await lab.gateway(kind, 'sleepers')
  for (const engine of both) if (await isAsleep(engine)) await command(engine, '/wake_up')
  await untilSeen(gateway, [])
  const prompt = freshPrompt()
  const answers = [await askFor(gateway, prompt), await askFor(gateway, prompt)]
  const sleeper = both.find(({ name }) => name === answers[1]!.engine)!
  const other = both.find((engine) => engine !== sleeper)!
  await command(sleeper, '/sleep?level=1&mode=wait')
  const seenMs = await untilSeen(gateway, [sleeper.name])
  const during: StreamAnswer[] = []
  for (let at = 0; at < DURING; at++) during.push(await askFor(gateway, freshPrompt()))
  check(
    during.every(({ engine }) => engine === other.name),
    `${during.map(({ engine }) => engine).join(' ')} while ${sleeper.name} slept`,
  )
  await command(other, '/sleep?level=1&mode=wait')
  await untilSeen(gateway, [sleeper.name, other.name])
  const woken = await askFor(gateway, prompt)
  const stillAsleep = (await Promise.all(both.map(isAsleep))).filter(Boolean).length
  for (const engine of both) if (await isAsleep(engine)) await command(engine, '/wake_up')
  await untilSeen(gateway, [])
  answers.push(woken, await askFor(gateway, prompt))
  const result =
    `asleep in the gateway after ${ms(seenMs)}; ${DURING} of ${DURING} requests by the other; with both asleep ` +
    `${woken.engine} was woken, first token after ${ms(woken.firstAt - woken.sentAt)}, ${stillAsleep} still asleep; ` +
    `cached tokens predicted/reported ${answers.map(cachedOf).join(' ')}`
  check(stillAsleep === 1 && answers.every(isExact) && answers[1]!.cached > 0 && woken.cached === 0, result)
  return result
}

const ms = (value: number): string => `${Math.round(value)} ms`
