/** A thread that plays healthy hours, one per message. */
import { parentPort } from 'node:worker_threads'
import { healthyHour, type HealthyHourOptions } from './healthy-hour.ts'

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
parentPort?.on('message', (options: HealthyHourOptions) => parentPort!.postMessage(healthyHour(options)))
