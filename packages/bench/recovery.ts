/**
 * Time to recovery: plays each fault against one of three simulated engines behind a gateway with ordinary settings.
 * Clients send short streams and give up after 10 s without a token.
 *
 * Flags: --only NAME,NAME (faults, `healthy`, `hours`, `warm-up`, `slow`) · --engines 3 · --rate 8 (requests per second) · --parallel 3
 * (faults at the same time, each with its own fleet and gateway) · --seeds 24 (healthy hours in virtual time)
 * · --full (fleets of three and of eight engines, each fault five times, medians; about an hour and a half)
 * · --peers FOLDER (where vllm-router, smg, nginx and sglang-router are installed; each plays the same faults).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { faults, type Fault } from './recovery/faults.ts'
import { type Figures, figuresOf, placedTooLongS } from './recovery/figures.ts'
import { falseEjections, type HealthyRow } from './recovery/healthy.ts'
import { healthyHours } from './recovery/healthy-hours.ts'
import { steadyLoad } from './recovery/load.ts'
import { Site } from './recovery/site.ts'
import { type SlowRow, slowRows } from './recovery/slow-rows.ts'
import { type PredictedLateness, predictedLateness } from './recovery/predicted-lateness.ts'
import { medianFigures } from './recovery/median-figures.ts'
import { warmUpRows } from './recovery/warm-up-rows.ts'
import { peerHeadline, peerRows, shownOwn, shownPeer } from './recovery/peer-rows.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

/** Time without a fault, in which the gateway learns the engines, ms. */
const WARM_MS = 8_000
const FAULT_MS = 20_000
const HEALED_MS = 15_000
/** Time in which predictions follow a slow engine, ms. */
const LEARN_MS = 5_000

interface Plan {
  /** Another gateway instead of Firstlight. */
  readonly peer?: { readonly name: string; readonly folder: string }
  readonly engines: number
  readonly perS: number
}

interface Row extends Figures {
  readonly fault: Fault
  readonly engines: number
}

/** Engines of the fleets with `--full`, and how often each fault is played. */
const FULL_FLEETS = [3, 8]
const FULL_RUNS = 5

export default async function recovery({ flags, note }: BenchOptions): Promise<BenchResult> {
  const plan = { engines: Number(flags['engines'] ?? 3), perS: Number(flags['rate'] ?? 8) }
  const isFull = flags['full'] !== undefined
  const plans = isFull
    ? FULL_FLEETS.map((engines) => ({ engines, perS: (plan.perS * engines) / plan.engines }))
    : [plan]
  const runs = isFull ? FULL_RUNS : 1
  const only = flags['only'] === undefined ? null : String(flags['only']).split(',')
  const known = [...faults.map(({ name }) => name), HEALTHY, HOURS, WARM_UP, SLOW]
  const unknown = only?.find((name) => !known.includes(name))
  if (unknown !== undefined) throw new Error(`--only: "${unknown}" is none of ${known.join(', ')}.`)
  const seeds = Number(flags['seeds'] ?? SEEDS)
  const chosen = faults.filter(({ name }) => only === null || only.includes(name))
  const rows: Row[] = []
  const waiting = plans.flatMap((one) => chosen.map((fault) => ({ fault, one })))
  const next = async (): Promise<void> => {
    for (let due = waiting.shift(); due !== undefined; due = waiting.shift()) {
      const { fault, one } = due
      note(`${fault.name}, ${one.engines} engines`)
      rows.push({ fault, engines: one.engines, ...(await playTimes(runs, fault, one)) })
    }
  }
  await Promise.all(Array.from({ length: Number(flags['parallel'] ?? 3) }, next))
  rows.sort((a, b) => a.engines - b.engines || faults.indexOf(a.fault) - faults.indexOf(b.fault))
  const reference = rows.some(({ fault }) => fault.kind === 'slow') ? await withoutSick(plan) : null
  const folder = flags['peers']
  const peers =
    typeof folder === 'string'
      ? await peerRows(chosen, (fault, name) => playTimes(runs, fault, { ...plan, peer: { name, folder } }), note)
      : []
  const healthy = [
    ...(only === null || only.includes(HEALTHY) ? await falseEjections(plan.engines, note) : []),
    ...(only === null || only.includes(HOURS) ? await hourRows({ seeds, engines: plan.engines }, note) : []),
  ]
  const slow = only === null || only.includes(SLOW) ? slowRows() : []
  const warmUps = only === null || only.includes(WARM_UP) ? warmUpRows() : []
  const compared = rows.filter(({ engines }) => engines === plan.engines)
  const ownOnly =
    peers.length === 0
      ? []
      : [
          ...rows
            .filter((row) => !compared.includes(row))
            .map(({ fault, engines }) => ({ name: `${fault.name}, ${engines} engines`, why: 'peers run one fleet' })),
          ...healthy.map(({ name }) => ({ name, why: 'engines out of use are read from the API of Firstlight' })),
          ...[...warmUps, ...slow].map(({ fault }) => ({ name: String(fault), why: 'virtual time' })),
        ]
  return {
    rows: [
      ...rows.map(shown),
      ...peers.map(shownPeer),
      ...shownOwn(ownOnly),
      ...healthy.map(({ name, ejections }) => ({ fault: name, false_ejections: ejections })),
      ...warmUps,
      ...slow,
    ],
    headline: {
      ...(rows.length === 0 ? {} : headlineOf(rows, reference)),
      ...(peers.length === 0 ? {} : peerHeadline(peers, { compared, others: ownOnly.length })),
      ...(slow.length === 0 ? {} : virtualHeadline(slow)),
      ...(healthy.length === 0 ? {} : { false_ejections: healthy.reduce((sum, one) => sum + one.ejections, 0) }),
    },
  }
}

const HEALTHY = 'healthy'
const HOURS = 'hours'
const WARM_UP = 'warm-up'
const SLOW = 'slow'
const SEEDS = 24
const HOUR_MINUTES = 60

async function hourRows(
  options: { readonly seeds: number; readonly engines: number },
  note: (line: string) => void,
): Promise<HealthyRow[]> {
  const hours = await healthyHours({ ...options, minutes: HOUR_MINUTES }, note)
  return hours.map(({ seed, machine, ejections }) => ({
    name: `healthy hour, seed ${seed}, ${machine}`,
    ejections: ejections.length,
  }))
}

const shown = ({ fault, ...figures }: Row): BenchRow => ({ fault: fault.name, ...figures })

async function playTimes(runs: number, fault: Fault, plan: Plan): Promise<Figures> {
  const played: Figures[] = []
  for (let run = 0; run < runs; run++) played.push(await play(fault, plan))
  return { ...played.at(-1)!, ...medianFigures(played) }
}

async function play(fault: Fault, { engines, perS, peer }: Plan): Promise<Figures & Partial<PredictedLateness>> {
  const site = await Site.start({ engines, pool: fault.pool ?? {}, ...(peer === undefined ? {} : { peer }) })
  try {
    const [sick] = site.fleet.engines
    const stop = new AbortController()
    const load = steadyLoad({ url: site.url, perS, signal: stop.signal })
    await sleep(WARM_MS)
    const faultAt = performance.now()
    fault.start(sick!)
    await sleep(fault.ms ?? FAULT_MS)
    const healedAt = performance.now()
    fault.end(sick!)
    await sleep(HEALED_MS)
    stop.abort()
    const sent = await load
    const slow = sent.filter(
      ({ engine, sentAt }) => engine === sick!.settings.id && sentAt > faultAt + LEARN_MS && sentAt < healedAt,
    )
    const lateness = fault.kind === 'slow' && peer === undefined ? await predictedLateness(site, slow) : {}
    return { ...figuresOf({ sent, placed: site.log.placed, sick: sick!.settings.id, faultAt, healedAt }), ...lateness }
  } finally {
    await site.stop()
  }
}

/** p99 of the time to first token of the same load without the sick engine, ms. */
async function withoutSick({ engines, perS }: Plan): Promise<number | null> {
  const none: Fault = { name: 'none', kind: 'out', start: () => undefined, end: () => undefined }
  return (await play(none, { engines: engines - 1, perS })).p99_before_ms
}

const virtualHeadline = (rows: readonly SlowRow[]): Record<string, number> => ({
  slow_sibling_p99_ratio_virtual: Math.max(...rows.map(({ sibling_p99_ratio: ratio }) => ratio)),
})

function headlineOf(rows: readonly Row[], reference: number | null): Record<string, number> {
  const out = rows.filter(({ fault }) => fault.kind === 'out')
  const slow = rows.find(({ fault }) => fault.name === '10x slow')?.siblings_p99_ms ?? null
  return {
    // From the first overdue sign, as clients saw it.
    last_placement_s_max: Math.max(0, ...out.map(placedTooLongS)),
    last_placement_after_fault_s_max: Math.max(0, ...out.map(({ last_placement_s: seconds }) => seconds ?? 0)),
    lost_requests: rows.reduce((sum, { lost }) => sum + lost, 0),
    ...(slow === null || reference === null ? {} : { slow_sibling_p99_ratio: slow / reference }),
    back_in_use_s_max: Math.max(0, ...out.map(({ back_in_use_s: seconds }) => seconds ?? HEALED_MS / 1000)),
  }
}
