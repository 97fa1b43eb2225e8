/** Runs one agent in a network namespace and computes its figures. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Processes } from '../conformance/processes.ts'
import type { Agent } from './agents.ts'
import type { InsideResult, Plan } from './inside.ts'
import { programOf } from './install.ts'
import { figuresOf, type TurnFigures } from './turns.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const inside = fileURLToPath(new URL('./inside.ts', import.meta.url))
const BUILD_LIMIT_S = 120
const RUN_LIMIT_S = 300
const TURN_LIMIT_S = 100

export interface AgentMeasurement {
  readonly conversations: TurnFigures
  /** The same conversations with a first system block that changes with each request. null: the agent has no such block. */
  readonly changingHeader: TurnFigures | null
  readonly faults: readonly string[]
  /** How the network was cut off. */
  readonly isolation: 'namespace' | 'proxy variables'
}

let built: Promise<void> | null = null

export async function measureAgent(agent: Agent, processes: Processes): Promise<AgentMeasurement> {
  const build = ['scripts/build.mjs']
  built ??= processes.finish({
    what: 'build the gateway',
    command: [process.execPath, ...build],
    folder: root,
    limitS: BUILD_LIMIT_S,
  })
  await built
  // Outside this repository: agents read its AGENTS.md, and OpenCode indexes it.
  const folder = mkdtempSync(join(tmpdir(), `firstlight-${agent.name}-`))
  const isolation = (await hasNamespaces(processes)) ? 'namespace' : 'proxy variables'
  const plan: Plan = {
    agent: agent.name,
    program: programOf(agent),
    folder,
    result: join(folder, 'result.json'),
    limitS: TURN_LIMIT_S,
    isolated: isolation === 'namespace',
  }
  const planFile = join(folder, 'plan.json')
  writeFileSync(planFile, JSON.stringify(plan))
  const command = [process.execPath, inside, planFile]
  await processes.finish({
    what: `${agent.name} in a ${isolation}`,
    command: plan.isolated ? [...NAMESPACE, 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...command] : command,
    folder: root,
    limitS: RUN_LIMIT_S,
  })
  const { turns, replayed, faults } = JSON.parse(readFileSync(plan.result, 'utf8')) as InsideResult
  // Kept after a failure, for its logs.
  rmSync(folder, { recursive: true, force: true })
  return {
    conversations: figuresOf(turns),
    changingHeader: replayed.length === 0 ? null : figuresOf(replayed),
    faults,
    isolation,
  }
}

/** Root inside the namespace only, which has no network but its own loopback. */
const NAMESPACE = ['unshare', '--map-root-user', '--net', '--']

const hasNamespaces = (processes: Processes): Promise<boolean> =>
  processes.output([...NAMESPACE, 'ip', 'link', 'set', 'lo', 'up']).then(
    () => true,
    () => false,
  )
