import { type Answer, type Incoming, json } from './answer.ts'
import type { SimulatedEngine } from './engine.ts'
import { readFault } from './fault-json.ts'
import type { FaultRule } from './faults.ts'
import type { Fleet } from './fleet.ts'

const bad = (message: string): Answer => json(400, { error: message })

/**
 * The control API of a simulated fleet; real engines have no such API.
 *
 * - `GET /_sim/engines`: all engines with their counters; `GET /_sim/engines/ID` adds the newest requests.
 * - `PUT /_sim/engines/ID/fault` with a fault as JSON, `DELETE` to clear it; ID `all` means every engine.
 * - `POST /_sim/engines/ID/kill`, `/restart`.
 */
export async function control(fleet: Fleet, incoming: Incoming): Promise<Answer> {
  const [, , collection, id, action] = incoming.path.split('/')
  if (collection !== 'engines') return json(404, { error: 'only /_sim/engines[/ID[/fault|kill|restart]]' })
  if (id === undefined || id === '') return json(200, { engines: fleet.engines.map(summary) })
  const engines = id === 'all' ? fleet.engines : fleet.engines.filter(({ settings }) => settings.id === id)
  if (engines.length === 0) return json(404, { error: `unknown engine "${id}"` })
  if (action === undefined) return json(200, engines.map(detail))
  if (action === 'fault') return setFaults(engines, incoming)
  if (incoming.method !== 'POST') return json(405, { error: 'use POST' })
  if (action === 'kill') for (const engine of engines) engine.kill()
  else if (action === 'restart') for (const engine of engines) engine.restart()
  else return json(404, { error: `no action "${action}": fault, kill or restart` })
  return json(200, engines.map(summary))
}

function setFaults(engines: readonly SimulatedEngine[], incoming: Incoming): Answer {
  let rule: FaultRule | null = null
  if (incoming.method !== 'DELETE') {
    try {
      rule = readFault(incoming.body)
    } catch (error) {
      return bad((error as Error).message)
    }
  }
  for (const engine of engines) engine.setFault(rule)
  return json(200, engines.map(summary))
}

/** Summarises an engine for tests and people. */
function summary(engine: SimulatedEngine): object {
  const { log, settings, kv } = engine
  const { model } = engine.driver
  return {
    id: settings.id,
    url: engine.url,
    role: settings.role,
    model: settings.model,
    profile: settings.profile,
    listening: engine.listening,
    fault: engine.fault === null ? null : snakeKeys(engine.fault),
    requests: log.requests,
    inference: log.inference,
    open: log.running,
    aborted: log.aborted,
    running: model.running,
    waiting: model.waiting,
    kv_usage: model.usage,
    counters: snakeKeys(model.counters),
    kv:
      kv === null
        ? null
        : {
            prefill_legs: kv.prefillLegs,
            decode_legs: kv.decodeLegs,
            late_reads: kv.lateReads,
            violations: snakeKeys(kv.violations),
          },
  }
}

const detail = (engine: SimulatedEngine): object => ({
  ...summary(engine),
  by_path: Object.fromEntries(engine.log.byPath),
  recent: engine.log.recent,
})

const snakeKeys = (record: object): object =>
  Object.fromEntries(
    Object.entries(record).map(([key, value]) => [
      key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )
