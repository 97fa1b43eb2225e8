/** CPU of the access log, and of the first requests of a process. */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { median } from '../median.ts'
import type { BenchRow } from '../result.ts'
import { runLoad, startServed, type Load, type StartedProcess } from './processes.ts'

/** Requests of a fresh process. */
const FIRST = 20_000

const BURST = { connections: 64, bytes: 1024, pace: [0, 0] } as const

const LOG_SCENARIOS = [
  { name: '1k c1', connections: 1, bytes: 1024, pace: [0, 0] },
  { name: '1k burst c64', ...BURST },
] as const

export interface GatewaySite {
  /** Writes a configuration with this log level; returns its file. */
  readonly configFile: (level: 'info' | 'warn') => string
  /** Scratch folder. */
  readonly folder: string
  readonly pairs: number
  readonly note: (line: string) => void
}

export interface LogAndStart {
  readonly rows: readonly BenchRow[]
  readonly headline: Readonly<Record<string, number>>
}

/**
 * Measures in turns, so that a busy machine disturbs both sides alike: slices of load on a gateway with and one without
 * the log; the first requests of fresh gateways and as many of a warm one.
 */
export async function measureLogAndStart(site: GatewaySite): Promise<LogAndStart> {
  const stdout = openSync(join(site.folder, 'stdout.log'), 'w')
  const quiet = await startServed(site.configFile('warn'), { stdout })
  try {
    const first = await measureFirst(site, quiet)
    const logging = await startServed(site.configFile('info'), { stdout })
    try {
      const log = await measureLog(site, { quiet, logging })
      const share = Math.max(...log.map(({ cpu_ratio_log: ratio }) => ratio)) - 1
      return { rows: [...log, first], headline: { log_cpu_share: share, cpu_first_20k_vs_warm: first.cpu_ratio_first } }
    } finally {
      logging.stop()
    }
  } finally {
    quiet.stop()
    closeSync(stdout)
  }
}

async function measureLog(
  { pairs, note }: GatewaySite,
  { quiet, logging }: Readonly<Record<'quiet' | 'logging', StartedProcess>>,
) {
  await cpuOf(logging, BURST, 2 * FIRST)
  const rows = []
  for (const { name, ...load } of LOG_SCENARIOS) {
    const requests = load.connections === 1 ? 2_000 : 4_000
    const cpu = { quiet: [] as number[], logging: [] as number[] }
    for (let pair = 0; pair < pairs; pair++) {
      note(`${pair + 1}/${pairs} ${name} with and without the access log`)
      const order = pair % 2 === 0 ? (['quiet', 'logging'] as const) : (['logging', 'quiet'] as const)
      for (const side of order) cpu[side].push(await cpuOf(side === 'quiet' ? quiet : logging, load, requests))
    }
    rows.push({
      scenario: name,
      subject: 'firstlight with access log',
      cpu_us: median(cpu.logging),
      cpu_ratio_log: median(cpu.logging.map((us, pair) => us / cpu.quiet[pair]!)),
    })
  }
  return rows
}

async function measureFirst({ configFile, pairs, note }: GatewaySite, warm: StartedProcess) {
  await cpuOf(warm, BURST, 2 * FIRST)
  const us: number[] = []
  const ratios: number[] = []
  for (let fresh = 0; fresh < Math.ceil(pairs / 4); fresh++) {
    note(`${fresh + 1}/${Math.ceil(pairs / 4)} first ${FIRST} requests of a process`)
    const gateway = await startServed(configFile('warn'))
    try {
      us.push(await cpuOf(gateway, BURST, FIRST))
      ratios.push(us.at(-1)! / (await cpuOf(warm, BURST, FIRST)))
    } finally {
      gateway.stop()
    }
  }
  return {
    scenario: BURST_NAME,
    subject: `firstlight, first ${FIRST} requests`,
    cpu_us: median(us),
    cpu_ratio_first: median(ratios),
  }
}

const BURST_NAME = LOG_SCENARIOS[1].name

async function cpuOf({ port, pid }: StartedProcess, load: Omit<Load, 'port'>, requests: number): Promise<number> {
  const { cpu_us: us } = await runLoad({ ...load, port, requests, warmRequests: load.connections }, pid)
  return us!
}
