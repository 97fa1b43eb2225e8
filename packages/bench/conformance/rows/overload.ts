/** Overload control in front of two real servers that get twice the requests that they can serve. */
import { setTimeout as sleep } from 'node:timers/promises'
import { servedModel } from '../engine.ts'
import { generator } from '../fuzz.ts'
import type { RunningGateway } from '../gateway.ts'
import { open } from '../http.ts'
import { check, RefutedError } from '../row.ts'
import type { Finding, Lab, Row } from '../row.ts'
import { overloadSloMs as sloMs } from '../fleets.ts'
import { prefer } from '../prefer.ts'
import { withKey } from './asks.ts'
import { asAdmin } from './decisions.ts'
import { quantile } from '../../quantile.ts'
import { words } from './routing.ts'

/** Requests that measure the capacity, and teach the gateway the speed of its engines. */
const learning = 32
const abreast = 8
const excess = 2
const seconds = 40
/** Words of a prompt; each is several tokens. */
const promptWords = 100
const minGain = 2

export const overloadRow: Row = {
  name: 'node-overload',
  says:
    `At ${excess} times the load that two engines sustain, at least ${minGain} times as many requests have their first ` +
    'token within slo.ttft_ms as without slo, and each refusal has a retry-after.',
  run: compare,
}

interface Result {
  /** Time to first token, ms; null: refused. */
  readonly ttftMs: number | null
}

async function compare(lab: Lab): Promise<Finding> {
  const random = generator(77)
  const results = new Map<string, { readonly perS: number; readonly all: readonly Result[] }>()
  for (const fleet of ['slow-pair', 'slow-pair-slo'] as const) {
    const gateway = await lab.gateway('node', fleet, '-overload')
    const preferred = prefer([process.pid, gateway.process.pid])
    const perS = results.get('slow-pair')?.perS ?? excess * (await capacity(gateway, random))
    if (results.size > 0) await capacity(gateway, random)
    lab.note(`  … ${perS.toFixed(1)} requests/s for ${seconds} s to ${fleet}`)
    results.set(fleet, { perS, all: await load(gateway, perS, random) })
    preferred.end()
    await untilEmpty(gateway)
  }
  const free = results.get('slow-pair')!
  const controlled = results.get('slow-pair-slo')!
  const served = controlled.all.filter(({ ttftMs }) => ttftMs !== null)
  const gain = inTime(controlled.all) / Math.max(1, inTime(free.all))
  const seen =
    `${free.perS.toFixed(1)} requests/s, ${free.all.length} each: in time ${inTime(free.all)} without slo, ` +
    `${inTime(controlled.all)} with it (${served.length} admitted)`
  const found = { seen, detail: detailOf(free.all, controlled.all) }
  if (gain < minGain) throw new RefutedError(found)
  return found
}

const inTime = (all: readonly Result[]): number => all.filter(({ ttftMs }) => ttftMs !== null && ttftMs <= sloMs).length

/** Requests per second that the engines serve with `abreast` at a time. */
async function capacity(gateway: RunningGateway, random: () => number): Promise<number> {
  const startedAt = performance.now()
  let sent = 0
  const client = async (): Promise<void> => {
    while (sent < learning) {
      sent++
      await ask(gateway, random)
    }
  }
  await Promise.all(Array.from({ length: abreast }, client))
  return (1000 * learning) / (performance.now() - startedAt)
}

/** Sends at a constant rate, whatever the responses do. */
async function load(gateway: RunningGateway, perS: number, random: () => number): Promise<Result[]> {
  const startedAt = performance.now()
  const pending: Promise<Result>[] = []
  for (let at = 0; at < perS * seconds; at++) {
    await sleep(Math.max(0, startedAt + (1000 * at) / perS - performance.now()))
    pending.push(ask(gateway, random))
  }
  return Promise.all(pending)
}

async function ask(gateway: RunningGateway, random: () => number): Promise<Result> {
  const sentAt = performance.now()
  const { response } = await open({
    url: gateway.url,
    method: 'POST',
    path: '/v1/completions',
    headers: withKey({}),
    body: { model: servedModel, prompt: words(random, promptWords), max_tokens: 4, ignore_eos: true, stream: true },
    limitMs: 300_000,
  })
  let firstAt = 0
  let received = ''
  for await (const piece of response.setEncoding('utf8')) {
    if (firstAt === 0) firstAt = performance.now()
    received += String(piece)
  }
  if (response.statusCode === 429) {
    check(Number(response.headers['retry-after']) >= 1, `a refusal without retry-after: ${received.slice(0, 200)}`)
    return { ttftMs: null }
  }
  check(response.statusCode === 200, `${response.statusCode}: ${received.slice(0, 200)}`)
  check(received.trimEnd().endsWith('data: [DONE]'), `a stream is not whole: ${received.slice(-200)}`)
  return { ttftMs: firstAt - sentAt }
}

async function untilEmpty(gateway: RunningGateway): Promise<void> {
  const { pools } = await asAdmin<{ pools: { bookings: number }[] }>(gateway, '/v1/firstlight/fleet')
  check(pools[0]!.bookings === 0, `${pools[0]!.bookings} bookings are left`)
}

function detailOf(free: readonly Result[], controlled: readonly Result[]): string {
  const row = (name: string, all: readonly Result[]): string => {
    const times = all.flatMap(({ ttftMs }) => (ttftMs === null ? [] : [ttftMs]))
    const quantiles = [0.5, 0.99].map((share) => Math.round(quantile(times, share)))
    return `| ${[name, all.length, times.length, inTime(all), ...quantiles].join(' | ')} |`
  }
  return [
    `Model of 8 layers, one thread each; prompts of ${promptWords} words without a common prefix; objective ${sloMs} ms.`,
    '',
    '| admission | sent | admitted | in time | TTFT p50 ms | p99 ms |',
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    row('without `slo`', free),
    row('`slo.ttft_ms`', controlled),
  ].join('\n')
}
