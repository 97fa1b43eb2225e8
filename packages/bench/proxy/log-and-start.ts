/** CPU of the access log, and of the first requests of a process. */
import { closeSync, copyFileSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../conformance/until.ts'
import { median, medianInterval } from '../median.ts'
import type { BenchRow } from '../result.ts'
import { runLoad, startServed, type Load, type StartedProcess } from './processes.ts'

/** Requests of a fresh process. */
const FIRST = 20_000

/** Requests after a change of the configuration that are not counted. */
const ADOPTING = 200

const BURST = { connections: 64, bytes: 1024, pace: [0, 0] } as const

const LOG_SCENARIOS = [
  { name: '1k c1', connections: 1, bytes: 1024, pace: [0, 0] },
  { name: '1k burst c64', ...BURST },
] as const

type Level = 'info' | 'warn'

export interface GatewaySite {
  /** Writes a configuration with this log level; returns its file. */
  readonly configFile: (level: Level) => string
  /** Scratch folder. */
  readonly folder: string
  readonly pairs: number
  readonly note: (line: string) => void
}

export interface LogAndStart {
  readonly rows: readonly BenchRow[]
  readonly headline: Readonly<Record<string, number>>
}

/** Measures in turns, so that a busy machine disturbs both sides alike. */
export async function measureLogAndStart(site: GatewaySite): Promise<LogAndStart> {
  const stdout = openSync(join(site.folder, 'stdout.log'), 'w')
  const file = join(site.folder, 'served.json')
  copyFileSync(site.configFile('warn'), file)
  const gateway = await startServed(file, { stdout })
  try {
    const first = await measureFirst(site, gateway)
    const log = await measureLog(site, gateway, file)
    const share = Math.max(...log.map(({ cpu_ratio_log: ratio }) => ratio)) - 1
    return { rows: [...log, first], headline: { log_cpu_share: share, cpu_first_20k_vs_warm: first.cpu_ratio_first } }
  } finally {
    gateway.stop()
    closeSync(stdout)
  }
}

/**
 * Compares slices of load on one gateway, which adopts another log level before each: two processes with equal
 * configuration differ by more than the log costs, for as long as they run.
 */
async function measureLog({ configFile, pairs, note }: GatewaySite, gateway: StartedProcess, file: string) {
  const configs = { info: configFile('info'), warn: configFile('warn') }
  const slice = async (level: Level, load: Omit<Load, 'port'>): Promise<number> => {
    copyFileSync(configs[level], file)
    await reload(gateway)
    return cpuOf(gateway, load, load.connections === 1 ? 2_000 : 4_000, ADOPTING)
  }
  const rows = []
  for (const { name, ...load } of LOG_SCENARIOS) {
    const cpu: Record<Level, number[]> = { info: [], warn: [] }
    for (const level of ['info', 'warn'] as const) await slice(level, load)
    for (let pair = 0; pair < pairs; pair++) {
      note(`${pair + 1}/${pairs} ${name} with and without the access log`)
      const order = pair % 2 === 0 ? (['warn', 'info'] as const) : (['info', 'warn'] as const)
      for (const level of order) cpu[level].push(await slice(level, load))
    }
    const ratios = cpu.info.map((us, pair) => us / cpu.warn[pair]!)
    const [low, high] = medianInterval(ratios)
    rows.push({
      scenario: name,
      subject: 'firstlight with access log',
      cpu_us: median(cpu.info),
      cpu_ratio_log: median(ratios),
      cpu_ratio_log_low: low,
      cpu_ratio_log_high: high,
    })
  }
  return rows
}

async function reload({ pid, port }: StartedProcess): Promise<void> {
  const version = async (): Promise<number> => {
    const fleet = await fetch(`http://127.0.0.1:${port}/v1/firstlight/fleet`)
    return ((await fleet.json()) as { readonly config_version: number }).config_version
  }
  const before = await version()
  process.kill(pid, 'SIGUSR2')
  await until(async () => (await version()) > before, 'the gateway to adopt its configuration', { everyMs: 10 })
}

/** The first requests of fresh gateways, each against as many of a warm one. */
async function measureFirst({ configFile, pairs, note }: GatewaySite, warm: StartedProcess) {
  const processes = Math.ceil(pairs / 10)
  await cpuOf(warm, BURST, 2 * FIRST)
  const us: number[] = []
  const ratios: number[] = []
  for (let fresh = 0; fresh < processes; fresh++) {
    note(`${fresh + 1}/${processes} first ${FIRST} requests of a process`)
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

async function cpuOf(
  { port, pid }: StartedProcess,
  load: Omit<Load, 'port'>,
  requests: number,
  warmRequests = load.connections,
): Promise<number> {
  const { cpu_us: us } = await runLoad({ ...load, port, requests, warmRequests }, pid)
  return us!
}
