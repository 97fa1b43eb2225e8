/** Stub engines, a gateway and a picker in front of them, and a real Envoy in each processing mode. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freeAddress } from '../../../src/platform/node/threads/free-address.ts'
import { type ServedProcess, startScript, startServed, type StartedProcess } from '../proxy/processes.ts'
import { type EnvoyMode, type FailureMode, startEnvoy } from './envoy.ts'

const ENGINES = 4
const ADMIN = 'admin-key-of-the-bench'

export interface Site {
  readonly gateway: StartedProcess
  readonly picker: StartedProcess
  readonly pickerPort: number
  /** Ports. */
  readonly engines: readonly number[]
  /** Envoy in front of these pickers, by default that of the site. */
  envoy(mode: EnvoyMode, pickers?: readonly number[], failureMode?: FailureMode): Promise<StartedProcess>
  /** `firstlight serve` with a picker on this port. */
  serve(pickerPort: number): Promise<ServedProcess>
  /** Kills the first engine. */
  loseEngine(): void
  close(): void
}

/** @param program Envoy */
export async function openSite(program: string): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-epp-'))
  const started: StartedProcess[] = []
  const keep = <One extends StartedProcess>(one: One): One => (started.push(one), one)
  const close = (): void => {
    for (const one of started) one.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const processes: StartedProcess[] = []
    for (let at = 0; at < ENGINES; at++) processes.push(keep(await startScript('stub-engine.ts', ['0'])))
    const engines = processes.map(({ port }) => port)
    const served = async (name: string, rest: object): Promise<ServedProcess> => {
      const file = join(folder, `${name}.json`)
      writeFileSync(file, JSON.stringify({ ...configOf(engines), ...rest }))
      return keep(await startServed(file))
    }
    const serve = (port: number): Promise<ServedProcess> =>
      served(`picker-${port}`, { epp: { listen: `127.0.0.1:${port}`, tls: 'off' } })
    const pickerPort = await freePort()
    return {
      gateway: await served('gateway', {}),
      picker: await serve(pickerPort),
      pickerPort,
      engines,
      serve,
      envoy: async (mode, pickers = [pickerPort], failureMode) =>
        keep(await startEnvoy({ program, folder, engines, pickers, failureMode }, mode)),
      loseEngine: () => void process.kill(processes[0]!.pid, 'SIGKILL'),
      close,
    }
  } catch (error) {
    close()
    throw error
  }
}

const configOf = (engines: readonly number[]): object => ({
  admin: { secret: ADMIN },
  open: true,
  log: { level: 'warn' },
  clusters: [{ id: 'bench', pools: [{ model: 'fake', engines: engines.map(engineAt) }] }],
})

export const engineAt = (port: number, at: number): object => ({ id: `e${at}`, url: `http://127.0.0.1:${port}` })

export async function freePort(): Promise<number> {
  const { port } = await freeAddress({ host: '127.0.0.1', port: 0 })
  return port
}

/** Fleet view of a gateway of this site. */
export async function fleetOf({ port }: { readonly port: number }): Promise<FleetView> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/firstlight/fleet`, {
    headers: { authorization: `Bearer ${ADMIN}` },
  })
  return (await answer.json()) as FleetView
}

interface FleetView {
  readonly pools: readonly { readonly bookings: number }[]
}
