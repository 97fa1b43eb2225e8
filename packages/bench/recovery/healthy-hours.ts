/** Healthy hours of many seeds, on all cores. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { once } from 'node:events'
import type { HealthyHour, HealthyHourOptions } from './healthy-hour.ts'

/** Machines of the engines. The gateway's prior is that of the first; it has to learn the other. */
const MACHINES = ['h100-8b', 'agentic']

export interface HoursOptions {
  readonly seeds: number
  readonly engines: number
  readonly minutes: number
}

export interface SeedHour extends HealthyHour {
  readonly machine: string
}

/** Plays one hour for each seed; machines take turns. */
export async function healthyHours(
  { seeds, engines, minutes }: HoursOptions,
  note: (line: string) => void,
): Promise<SeedHour[]> {
  const hours: SeedHour[] = []
  let seed = 0
  const play = async (): Promise<void> => {
    const thread = new Worker(new URL('healthy-hour-thread.ts', import.meta.url))
    while (seed < seeds) {
      const machine = MACHINES[seed % MACHINES.length]!
      seed += 1
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      thread.postMessage({ seed, engines, minutes, profile: machine } satisfies HealthyHourOptions)
      const [hour] = (await once(thread, 'message')) as [HealthyHour]
      hours.push({ ...hour, machine })
      note(`healthy hour of seed ${hour.seed} on ${machine}: ${hour.ejections.length} ejections`)
    }
    await thread.terminate()
  }
  await Promise.all(Array.from({ length: Math.min(seeds, availableParallelism()) }, play))
  return hours.toSorted((a, b) => a.seed - b.seed)
}
