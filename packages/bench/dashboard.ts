/**
 * CPU that viewers of the dashboard cost the gateway at a rate of long streams. The streams are booked in the pool, as
 * in the browser tests, so the views have the decisions, rates and history of that rate. Phases without a viewer, with
 * one and with many alternate; a cost is the median of the differences to the phase without one.
 *
 * Flags: --rate 500 · --engines 8 · --stream-s 20 · --viewers 32 · --seconds 5 · --rounds 9
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startRecordedWorld } from '../../test/browser/recorded.ts'
import { median } from './median.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

interface ReceivedViews {
  readonly views: number
  readonly bytes: number
}

interface Phase extends ReceivedViews {
  readonly viewers: number
  /** CPU of this process per second, in cores. */
  readonly cores: number
}

export default async function dashboard({ flags, note }: BenchOptions): Promise<BenchResult> {
  const flag = (name: string, otherwise: number) => Number(flags[name] ?? otherwise)
  const [requestsPerS, streamS, many] = [flag('rate', 500), flag('stream-s', 20), flag('viewers', 32)]
  const seconds = flag('seconds', 5)
  const engines = Array.from({ length: flag('engines', 8) }, (_, index) => ({ id: `e${index}` }))
  const past = { requestsPerS, streamS, lastS: streamS + 25 }
  const world = await startRecordedWorld([{ id: 'bench', engines }], past)
  const viewers = fork(fileURLToPath(new URL('dashboard/viewer.ts', import.meta.url)), [world.url])
  try {
    const rounds: (readonly Phase[])[] = []
    const counts = [0, 1, many]
    for (const count of counts) await phase(viewers, count, seconds)
    while (rounds.length < flag('rounds', 9)) {
      const phases: Phase[] = []
      // A drift of the machine counts in both directions.
      for (const count of rounds.length % 2 === 0 ? counts : counts.toReversed())
        phases.push(await phase(viewers, count, seconds))
      phases.sort((a, b) => a.viewers - b.viewers)
      note(`round ${rounds.length + 1}: ${phases.map(({ cores }) => percent(cores)).join(', ')} % of a core`)
      rounds.push(phases)
    }
    const rows = [0, 1, 2].map((at) => rowOf(rounds, at, seconds))
    const [, one, all] = rows
    const further = (Number(all!['cost_percent']) - Number(one!['cost_percent'])) / (many - 1)
    const figures = {
      viewer_percent: Number(one!['cost_percent']),
      further_viewer_percent: Math.round(further * 1000) / 1000,
    }
    return { rows: rows.map((row) => ({ requests_per_s: requestsPerS, ...row })), headline: figures }
  } finally {
    viewers.kill('SIGKILL')
    await world.close()
  }
}

/** Changes the number of viewers, waits until each has a view, and measures. */
async function phase(process_: ChildProcess, viewers: number, seconds: number): Promise<Phase> {
  await tell(process_, viewers)
  const before = process.cpuUsage()
  const from = performance.now()
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  const { user, system } = process.cpuUsage(before)
  const cores = (user + system) / 1000 / (performance.now() - from)
  return { viewers, cores, ...(await tell(process_, viewers)) }
}

/** Returns what the viewers received since the last change. */
async function tell(process_: ChildProcess, viewers: number): Promise<ReceivedViews> {
  process_.send(viewers)
  const [received] = (await once(process_, 'message')) as [ReceivedViews]
  await once(process_, 'message')
  return received
}

function rowOf(rounds: readonly (readonly Phase[])[], at: number, seconds: number): BenchRow {
  const phases = rounds.map((round) => round[at]!)
  const { viewers } = phases[0]!
  const views = median(phases.map((one) => one.views))
  return {
    viewers,
    core_percent: percent(median(phases.map(({ cores }) => cores))),
    cost_percent: percent(median(rounds.map((round) => round[at]!.cores - round[0]!.cores))),
    views_per_s: viewers === 0 ? 0 : Math.round((views / viewers / seconds) * 100) / 100,
    view_kb: viewers === 0 ? 0 : Math.round(median(phases.map(({ bytes, views: count }) => bytes / count)) / 100) / 10,
  }
}

const percent = (share: number): number => Math.round(share * 10_000) / 100
