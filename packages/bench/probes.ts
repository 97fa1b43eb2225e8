/**
 * CPU of a probe of an engine that sends 100 KB of metrics: health, and the metrics with their parsing.
 * `npm run bench -- probes`
 *
 * `parse_share`: share of the parsing. `shared_probes_core_share`: share of a core that the largest number of probes a
 * second takes if other sources use the engines, too.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { SHARED_PROBES_PER_S } from '../../src/core/pool/pool-engines/probe-intervals.ts'
import { readMetrics } from '../../src/engines/engine-registry.ts'
import { engineProbe } from '../../src/origin/probes/engine-probe.ts'
import { socketOrigin } from '../../src/platform/node/http1/origin.ts'
import type { EngineTarget } from '../../src/ports/engine-target.ts'
import { median } from './median.ts'
import type { Bench } from './result.ts'

const ROUNDS = 25
const EACH = 200

const bench: Bench = async () => {
  const engine = fork(fileURLToPath(new URL('probes/engine.ts', import.meta.url)))
  const [port] = (await once(engine, 'message')) as [number]
  const origin = socketOrigin()
  try {
    const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
    const probe = engineProbe(origin, log)
    const target: EngineTarget = {
      kind: 'server',
      id: 'engine',
      url: `http://127.0.0.1:${port}`,
      headers: [],
      binding: null,
    }
    const metrics = new Uint8Array(await (await fetch(`${target.url}/metrics`)).arrayBuffer())
    const timesUs = { probe: [] as number[], parse: [] as number[] }
    for (let round = 0; round < ROUNDS; round++) {
      timesUs.probe.push(await cpuUsOf(() => probe(target, Date.now)))
      timesUs.parse.push(await cpuUsOf(() => readMetrics(new TextDecoder().decode(metrics))))
    }
    const [probeUs, parseUs] = [median(timesUs.probe), median(timesUs.parse)]
    return {
      rows: [{ metrics_bytes: metrics.length, probe_cpu_us: Math.round(probeUs), parse_cpu_us: Math.round(parseUs) }],
      headline: {
        parse_share: Math.round((100 * parseUs) / probeUs) / 100,
        shared_probes_core_share: Math.round(SHARED_PROBES_PER_S * probeUs) / 1e6,
      },
    }
  } finally {
    origin.close()
    engine.disconnect()
  }
}

export default bench

/** Mean CPU time of this process, microseconds. */
async function cpuUsOf(act: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  for (let at = 0; at < EACH; at++) await act()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / EACH
}
