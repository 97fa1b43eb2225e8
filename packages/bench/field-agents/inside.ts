/**
 * Runs inside a network namespace with loopback only: one agent's tasks through the built gateway before two scripted
 * engines. `node inside.ts PLAN.json`; the plan names the file of the result.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePorts } from '../conformance/http.ts'
import { Processes } from '../conformance/processes.ts'
import { until } from '../conformance/until.ts'
import { envOf, fileOfTask, runTask, type AgentTask } from './agent-task.ts'
import { agents, type Agent, type Setting } from './agents.ts'
import { openFleet, type FaultPlan, type Fleet } from './fleet.ts'
import { CLIENT_KEY, openAgentGateway, type AgentGateway } from './gateway.ts'
import { replayWithChangingHeader } from './replay.ts'
import { turnsOf, type Turn } from './turns.ts'

export interface Plan {
  readonly agent: string
  readonly program: string
  readonly folder: string
  readonly result: string
  /** Of one turn of the user. */
  readonly limitS: number
  /** The process has no network but loopback. Otherwise only proxy variables keep the agent off it. */
  readonly isolated: boolean
}

export interface InsideResult {
  readonly turns: readonly Turn[]
  /** Faults of the task that had to finish, in the order in which engines sent them. */
  readonly faults: readonly string[]
  /** Turns of the same conversations with a first system block that changes with each request. Empty: not applicable. */
  readonly replayed: readonly Turn[]
}

const ENGINES = ['a', 'b']
const CONVERSATIONS = 3
/** Between the starts of conversations: users do not begin in the same instant. */
const STAGGER_MS = 700

/** One fault at each step; at the end both engines are busy at once. */
const FAULTS: FaultPlan = { 0: ['busy'], 1: ['error_event'], 2: ['broken_stream'], 3: ['busy', 'busy'] }

const plan = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as Plan
await main(plan)

async function main({ agent: name, program, folder, result, limitS, isolated }: Plan): Promise<void> {
  const outside = Object.keys(networkInterfaces()).filter((one) => one !== 'lo')
  if (isolated && outside.length > 0) throw new Error(`this process has a network: ${outside.join(', ')}`)
  const agent = agents.find((one) => one.name === name)!
  mkdirSync(folder, { recursive: true })
  const processes = new Processes(join(folder, 'logs'), () => {})
  const fleet = await openFleet(ENGINES)
  try {
    const gateway = await openAgentGateway(processes, `agents-${name}`, fleet)
    const [port] = await freePorts(1)
    const setting = { url: gateway.url, key: CLIENT_KEY, work: folder, home: join(folder, 'home'), port: port! }
    await startServer(processes, agent, program, setting)
    const task = (at: string): AgentTask => ({ agent, program, folder: join(folder, at), setting, limitS })
    const found = await runAgent(gateway, fleet, task)
    const replayed = await replayWithChangingHeader(processes, found.served, ENGINES)
    const { turns, faults } = found
    writeFileSync(result, JSON.stringify({ turns, faults, replayed } satisfies InsideResult))
  } finally {
    fleet.close()
    await processes.stopAll()
  }
}

async function startServer(processes: Processes, agent: Agent, program: string, setting: Setting): Promise<void> {
  if (agent.server === undefined) return
  mkdirSync(setting.home, { recursive: true })
  agent.configure(setting)
  const running = processes.start({
    what: `server of ${agent.name}`,
    command: [program, ...agent.server(setting)],
    folder: setting.work,
    env: envOf(agent, setting),
  })
  await until(
    async () => {
      if (running.exitCode() !== null) throw new Error(`the server of ${agent.name} ended:\n${running.tail()}`)
      return isOpen(setting.port)
    },
    `the server of ${agent.name}`,
    { everyMs: 200, limitMs: 60_000 },
  )
}

/** Whether a server listens. Its paths may lead to the network. */
function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.once('connect', () => socket.destroy()).once('error', () => {})
    socket.once('close', (failed) => resolve(!failed))
  })
}

async function runAgent(gateway: AgentGateway, fleet: Fleet, task: (at: string) => AgentTask) {
  // First, because its failovers fill both caches with what all conversations share.
  const faulty = task('faults')
  fleet.fail(fileOfTask(faulty.folder), FAULTS)
  await runTask(faulty, { secondTurn: false })
  const faults = fleet.served.flatMap(({ fault }) => fault ?? [])
  const from = fleet.served.length
  await Promise.all(
    Array.from({ length: CONVERSATIONS }, async (_, at) => {
      await sleep(at * STAGGER_MS)
      await runTask(task(`conversation-${at}`), { secondTurn: true })
    }),
  )
  const served = fleet.served.slice(from)
  return { faults, served: fleet.served, turns: await turnsOf(served, gateway) }
}
