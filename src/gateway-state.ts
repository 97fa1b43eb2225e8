/** What a gateway takes over from its predecessor in the same process, or begins with. */
import type { Authenticator } from './api/auth/authenticator.ts'
import { Budgets } from './api/budgets.ts'
import { PromptAnalyzers, type VocabularyOf } from './api/prompt/prompt-analyzers.ts'
import { RequestHistory } from './api/request-history.ts'
import { RunningIds } from './api/running-ids.ts'
import { BodyMemory, countIn } from './body-memory.ts'
import type { Config } from './config.ts'
import { CostUsage } from './core/cost/cost-usage.ts'
import { KeyUsage } from './core/limits/key-usage.ts'
import { memoryLimiter } from './memory-limiter.ts'
import { CurrentRoutes } from './origin/current-routes.ts'
import type { FleetProbe } from './origin/probes/fleet-probe.ts'
import { MemoryResponses } from './origin/memory-responses.ts'
import type { Ports } from './ports.ts'
import type { Limiter } from './ports/limiter.ts'
import type { StoredResponses } from './ports/stored-responses.ts'
import { Telemetry } from './telemetry/telemetry.ts'
import type { WorkerGroup } from './api/worker-group.ts'

/** State that a gateway passes to its successor, which has another configuration. */
export interface GatewayState {
  readonly storedResponses: StoredResponses
  readonly recent: RequestHistory
  readonly telemetry: Telemetry
  readonly analyzers: PromptAnalyzers
  readonly bodyMemory: BodyMemory
  readonly limiter: Limiter
  readonly usage: KeyUsage
  readonly costUsage: CostUsage
  /** null: no key or team has a budget. */
  readonly budgets: Budgets | null
  /** Times of the next probes. */
  readonly dueAt: FleetProbe['dueAt']
  /** Start of the first gateway, ms since the epoch: a reload does not change it. */
  readonly startedAt: number
  readonly runningIds: RunningIds
  /** Routes of the newest gateway, which its predecessors use, too. */
  readonly currentRoutes: CurrentRoutes
}

interface StateSources extends Pick<Authenticator, 'hasBudgets'> {
  /** undefined: this is the first gateway. */
  readonly predecessor: GatewayState | undefined
  /** null: no other gateway serves the same address. */
  readonly workerGroup: WorkerGroup | null
  readonly vocabularyOf: VocabularyOf
}

/** Number of requests that the admin API can describe. */
const RECENT_REQUESTS = 1000

/** State under a new configuration: that of the predecessor, with the new limits. */
export function gatewayState(config: Config, ports: Ports, sources: StateSources): GatewayState {
  const { predecessor, workerGroup, vocabularyOf, hasBudgets } = sources
  const now = (): number => ports.now()
  const limiter = predecessor?.limiter ?? ports.shared?.limiter ?? memoryLimiter(now)
  return {
    storedResponses:
      predecessor?.storedResponses ?? ports.shared?.storedResponses ?? new MemoryResponses(config.limits.responseIds),
    recent: predecessor?.recent ?? new RequestHistory(RECENT_REQUESTS),
    telemetry: telemetryFor(config, ports, predecessor?.telemetry),
    analyzers: new PromptAnalyzers(now, vocabularyOf, predecessor?.analyzers),
    bodyMemory: bodyMemoryFor(config, ports, predecessor?.bodyMemory),
    limiter,
    usage: predecessor?.usage ?? new KeyUsage(),
    costUsage: predecessor?.costUsage ?? new CostUsage(),
    budgets: hasBudgets ? (predecessor?.budgets ?? new Budgets({ ports, limiter })) : null,
    dueAt: predecessor?.dueAt ?? new Map(),
    startedAt: predecessor?.startedAt ?? workerGroup?.startedAt ?? now(),
    runningIds: predecessor?.runningIds ?? new RunningIds(),
    currentRoutes: predecessor?.currentRoutes ?? new CurrentRoutes(),
  }
}

function telemetryFor({ traces }: Config, ports: Ports, predecessor: Telemetry | undefined): Telemetry {
  const telemetry = predecessor ?? new Telemetry(ports, traces, ports.newId())
  telemetry.adopt(traces)
  return telemetry
}

function bodyMemoryFor({ limits }: Config, { shared }: Ports, predecessor: BodyMemory | undefined): BodyMemory {
  const memory = predecessor ?? new BodyMemory(limits, shared?.bodyKib ?? countIn(new Int32Array(1)))
  memory.adopt(limits)
  return memory
}
