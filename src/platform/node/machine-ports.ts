import { randomUUID } from 'node:crypto'
import { MEASURED_PROMPT_BYTES } from '../../api/prompt/measured-prompt.ts'
import type { Log } from '../../ports/log.ts'
import { fetchJson } from '../fetch-json.ts'
import { post } from '../post.ts'
import { EngineCertificates } from './engine-certificates.ts'
import { nodeTimers } from './wheel-timer.ts'
import { socketOrigin } from './http1/origin.ts'
import { parseLongInTurns } from './parse-long-json.ts'
import { steadyNow } from './steady-clock.ts'
import { yieldToEventLoop } from './yield-to-event-loop.ts'

/** Ports that all threads of a process have: those that depend neither on the configuration nor on shared state. */
export function machinePorts(log: Log) {
  const certificates = new EngineCertificates(steadyNow, log)
  return {
    origin: socketOrigin({ now: steadyNow, certificatesFor: (tls) => certificates.optionsFor(tls) }),
    now: steadyNow,
    random: () => Math.random(),
    newId: () => randomUUID(),
    log,
    timers: nodeTimers,
    services: { post, fetchJson },
    maxMeasuredPromptBytes: MEASURED_PROMPT_BYTES.http,
    yieldToEventLoop,
    parseLong: parseLongInTurns(yieldToEventLoop),
  }
}
