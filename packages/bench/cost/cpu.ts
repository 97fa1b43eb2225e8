/** CPU of a gateway that counts costs, against one that does not. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median } from '../median.ts'
import { runLoad, startScript, startServed, type StartedProcess } from '../proxy/processes.ts'
import type { BenchRow } from '../result.ts'

const BURST = { connections: 64, bytes: 1024, pace: [0, 0] } as const
const REQUESTS = 4_000
const WARM_REQUESTS = 20_000

interface CostCpu {
  readonly row: BenchRow
  readonly ratio: number
}

/** Measures slices of load in turns on both gateways, so that a busy machine disturbs them alike. */
export async function measureCostCpu(pairs: number, note: (line: string) => void): Promise<CostCpu> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-cost-'))
  const started: StartedProcess[] = []
  try {
    for (let at = 0; at < 4; at++) started.push(await startScript('stub-engine.ts', ['0']))
    const engines = started.map(({ port }, at) => ({ id: `e${at}`, url: `http://127.0.0.1:${port}` }))
    const gatewayWith = async (name: string, more: object): Promise<StartedProcess> => {
      const file = join(folder, `${name}.json`)
      const pool = { model: 'fake', ...more, engines }
      const config = { listen: '127.0.0.1:0', log: { level: 'warn' }, clusters: [{ id: 'bench', pools: [pool] }] }
      writeFileSync(file, JSON.stringify(config))
      const gateway = await startServed(file)
      started.push(gateway)
      return gateway
    }
    const off = await gatewayWith('off', {})
    const on = await gatewayWith('on', { cost: { price_per_engine_hour: 2 } })
    for (const gateway of [off, on]) await cpuOf(gateway, WARM_REQUESTS)
    const us: { readonly off: number; readonly on: number }[] = []
    for (let pair = 0; pair < pairs; pair++) {
      note(`${pair + 1}/${pairs} with and without costs`)
      const first = pair % 2 === 0 ? await cpuOf(off, REQUESTS) : null
      const withCosts = await cpuOf(on, REQUESTS)
      us.push({ off: first ?? (await cpuOf(off, REQUESTS)), on: withCosts })
    }
    const ratio = median(us.map((pair) => pair.on / pair.off))
    const off_us = median(us.map((pair) => pair.off))
    return { row: { traffic: '1k burst c64', cpu_us_off: off_us, cpu_us_on: median(us.map((pair) => pair.on)) }, ratio }
  } finally {
    for (const one of started) one.stop()
    rmSync(folder, { recursive: true })
  }
}

async function cpuOf({ port, pid }: StartedProcess, requests: number): Promise<number> {
  return (await runLoad({ ...BURST, port, requests, warmRequests: BURST.connections }, pid)).cpu_us!
}
