/** Runs jobs of the bench on all cores. */
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { GradeJob } from './grade-thread.ts'

/** Resolves with the results in the order of the jobs. */
export async function onThreads<Result>(
  jobs: readonly GradeJob[],
  done: (job: GradeJob, result: Result) => void,
): Promise<Result[]> {
  const results: Result[] = []
  const open = [...jobs.entries()]
  const work = async (): Promise<void> => {
    const thread = new Worker(new URL('grade-thread.ts', import.meta.url))
    for (let next = open.shift(); next !== undefined; next = open.shift()) {
      const [at, job] = next
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      thread.postMessage(job)
      const [result] = (await once(thread, 'message')) as [Result]
      results[at] = result
      done(job, result)
    }
    await thread.terminate()
  }
  await Promise.all(Array.from({ length: Math.min(jobs.length, availableParallelism()) }, work))
  return results
}
