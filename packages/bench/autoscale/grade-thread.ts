/** A thread that runs jobs of the bench, one per message. */
import { parentPort } from 'node:worker_threads'
import { grade, type GradeInput, type QueueSetting, tunedQueue } from './grade.ts'

/** Without a setting of the queue rule: tune it. */
export interface GradeJob extends GradeInput {
  readonly queue: QueueSetting | null
}

parentPort?.on('message', ({ queue, ...input }: GradeJob) =>
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
  parentPort!.postMessage(queue === null ? tunedQueue(input) : grade(input, queue)),
)
