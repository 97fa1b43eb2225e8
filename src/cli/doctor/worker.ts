/** Examines a deployed Worker through its public routes: readiness, placement, shared state and pace of `admit`. */
import { ask, type AskResult, type Endpoint, isAnswer } from './ask.ts'
import { Findings, type Subject } from './finding.ts'

interface WorkerOptions {
  readonly limitMs: number
  /** Time between two readings of the metrics, ms. */
  readonly sampleMs: number
}

/** Calls per second and p99 of `admit`, s, above which several objects are recommended. */
const MANY_CALLS_PER_S = 500

const SLOW_ADMIT_S = 0.01

/** Calls per second below which a slow `admit` is no overload: the object is far, or was asleep. */
const SOME_CALLS_PER_S = 50

interface FleetView {
  readonly version?: string
  readonly shared?: boolean
  readonly isolates?: number
  readonly placement?: string
}

export async function examineWorker(worker: Endpoint, { limitMs, sampleMs }: WorkerOptions): Promise<Subject> {
  const found = new Findings()
  const subject = (is: string): Subject => ({
    kind: 'gateway',
    name: new URL(worker.url).host,
    url: worker.url,
    is,
    findings: found.list,
  })
  const ready = await ask(worker, { path: '/ready', limitMs })
  if (!isAnswer(ready)) {
    found.add('unreachable', 'reachable', ready.message, { next: ready.next })
    return subject('')
  }
  if (ready.status === 200) found.ok('ready', 'The Worker is ready.')
  else
    found.problem('ready', `GET /ready returned ${ready.status}.`, {
      next: 'Read the log: npx wrangler tail. Usual causes are a missing secret or an invalid FIRSTLIGHT_CONFIG.',
    })
  const fleet = await ask(worker, { path: '/v1/firstlight/fleet', limitMs })
  if (!isAnswer(fleet) || fleet.status !== 200) {
    found.note('admin_key', 'The admin API did not answer, so placement and state are unknown.', {
      next: 'Give the admin key: --key KEY, or FIRSTLIGHT_ENGINE_KEY.',
    })
    return subject('Firstlight')
  }
  const view = JSON.parse(fleet.text) as FleetView
  checkPlacement(view, found)
  checkShared(view, found)
  const before = readPace(await ask(worker, { path: '/metrics', limitMs }))
  await new Promise((resolve) => setTimeout(resolve, sampleMs))
  const after = readPace(await ask(worker, { path: '/metrics', limitMs }))
  if (before !== null && after !== null) checkPace(after, (after.calls - before.calls) / (sampleMs / 1000), found)
  return subject(`Firstlight ${view.version ?? ''}`.trim())
}

function checkPlacement({ placement }: FleetView, found: Findings): void {
  const remedy = {
    next: 'Set placement = { region = "aws:…" } in wrangler.local.toml if all engines are in one place.',
  }
  if (placement === undefined)
    found.note('cf_placement', 'The request had no cf-placement header: the Worker is not placed.', remedy)
  else if (placement.startsWith('remote-')) found.ok('cf_placement', `The Worker ran at its place: ${placement}.`)
  else found.note('cf_placement', `The Worker ran near this machine: ${placement}.`, remedy)
}

function checkShared({ shared, isolates }: FleetView, found: Findings): void {
  if (shared === true) found.ok('shared_state', `The isolates share their state (${isolates ?? 1} now).`)
  else
    found.warn('shared_state', 'The isolates do not share their state.', {
      costs: 'Views show one isolate. Circuits, drains and limits of regions hold for one isolate.',
      next: 'Deploy with the binding EDGE (class EdgeObject) of wrangler.toml.',
    })
}

/** Count of calls and p99, s, of the stage `admit`. */
interface Pace {
  readonly calls: number
  readonly p99S: number
}

/** Reads the histogram of `admit` over all engines. null: there is none, as without `ttft`. @testing */
export function readPace(answer: AskResult): Pace | null {
  if (!isAnswer(answer) || answer.status !== 200) return null
  const buckets = new Map<number, number>()
  const lines = answer.text.matchAll(/^firstlight_stage_seconds_bucket\{([^}]*)\} (\S+)/gm)
  for (const [, labels = '', count] of lines) {
    if (!labels.includes('stage="admit"')) continue
    const limit = /le="([^"]+)"/.exec(labels)?.[1]
    const maxS = limit === '+Inf' ? Infinity : Number(limit)
    buckets.set(maxS, (buckets.get(maxS) ?? 0) + Number(count))
  }
  const calls = buckets.get(Infinity) ?? 0
  if (calls === 0) return null
  const p99S = [...buckets].sort(([a], [b]) => a - b).find(([, count]) => count >= 0.99 * calls)![0]
  return { calls, p99S }
}

function checkPace({ p99S }: Pace, callsPerS: number, found: Findings): void {
  const isSlow = p99S > SLOW_ADMIT_S && callsPerS > SOME_CALLS_PER_S
  const p99 = p99S === Infinity ? 'above the largest bucket' : `at most ${p99S * 1000} ms`
  const measured = `${Math.round(callsPerS)} admits per second; p99 is ${p99}.`
  if (callsPerS <= MANY_CALLS_PER_S && !isSlow) return found.ok('admit', measured)
  found.warn('admit', measured, {
    costs: 'A Durable Object serves about 1,000 calls per second.',
    next: 'Set `shards` on the busiest pool, 500 admits per second each (docs/scale-workers.md).',
  })
}
