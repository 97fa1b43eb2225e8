/** Consumers of a request that has ended: each reads its record. */
import type { Config } from '../config.ts'
import type { RequestRecord } from '../core/reports/request-record.ts'
import type { KeyUsage } from '../core/limits/key-usage.ts'
import type { MirrorCounts } from '../core/traffic/mirror-counts.ts'
import type { Ports } from '../ports.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { WorkerGroup } from '../worker-group.ts'
import { addRecordFields } from './access-log-fields.ts'
import type { WeightedModels } from './weighted-models.ts'
import { type Budgets, hasTokenBudget } from './budgets.ts'
import { logRequest, logsRequests } from './access-log.ts'
import type { RequestEnd } from './inference-exchange.ts'
import { productionStackLine } from './production-stack-line.ts'

interface EndParts {
  readonly config: Pick<Config, 'log'>
  readonly ports: Pick<Ports, 'log'>
  readonly telemetry: Telemetry
  readonly usage: KeyUsage
  readonly shared: Pick<WorkerGroup, 'ended'> | null
  /** null: there are no weighted models. */
  readonly weighted: WeightedModels | null
  /** null: there is no mirror traffic. */
  readonly mirrorCounts: MirrorCounts | null
  /** null: no key or team has a budget. */
  readonly budgets: Budgets | null
  readonly authenticator: { readonly hasLimits: boolean }
}

/** Steps at the end of a request, in order. What is not configured is absent. */
export function requestEnd({
  config,
  ports,
  telemetry,
  usage,
  shared,
  authenticator,
  weighted,
  mirrorCounts,
  budgets,
}: EndParts): RequestEnd {
  const steps: readonly RequestEnd[] = [
    ...(authenticator.hasLimits ? [settleLimits] : []),
    ({ parsed, record }) => usage.add(parsed.caller.tenant, record),
    ...(budgets === null ? [] : [chargeTokens(budgets)]),
    ...(weighted === null ? [] : [countTarget(weighted)]),
    ...(mirrorCounts === null ? [] : [countOriginal(mirrorCounts)]),
    ...(shared?.ended === undefined ? [] : [tellGroup(shared)]),
    ({ record, exchange }) => telemetry.recordEnded(record, exchange.scope),
    ...(telemetry.traces ? [exportSpans(telemetry)] : []),
    ...(config.log.routing ? [logRouting(ports)] : []),
    logEnd(ports),
  ]
  return (request) => {
    for (const step of steps) step(request)
  }
}

const settleLimits: RequestEnd = ({ exchange: { permit, scope }, record: { used } }) => {
  const tokens = used ? used.promptTokens + used.outputTokens : null
  if (permit !== null) scope.background(permit.settle(tokens))
}

const chargeTokens =
  (budgets: Budgets): RequestEnd =>
  ({ exchange, parsed: { caller }, record: { engine, usage, used } }) => {
    if (!hasTokenBudget(caller) || engine === null) return
    const known =
      used ?? (usage === null ? null : { promptTokens: usage.promptTokens, outputTokens: usage.completionTokens })
    // Of an answer that does not show how long it is, only the prompt is known.
    const tokens =
      known === null ? exchange.admission(exchange.routes[0]!).promptTokens : known.promptTokens + known.outputTokens
    if (tokens > 0) budgets.charge(caller, { tokens }, exchange.scope)
  }

/** null: unknown. */
export const outputTokensOf = ({ used, usage }: RequestRecord): number | null =>
  used?.outputTokens ?? usage?.completionTokens ?? null

const countTarget =
  (weighted: WeightedModels): RequestEnd =>
  ({ parsed: { chosen }, record }) => {
    if (chosen !== null) weighted.ended(chosen, record, outputTokensOf(record))
  }

const countOriginal =
  (mirrorCounts: MirrorCounts): RequestEnd =>
  ({ exchange, record }) =>
    mirrorCounts.ended(exchange, record, outputTokensOf(record))

const tellGroup =
  (group: Pick<WorkerGroup, 'ended'>): RequestEnd =>
  ({ parsed: { model, caller }, record, exchange }) =>
    group.ended?.({ model, tenant: caller.tenant, record }, exchange.scope)

const exportSpans =
  (telemetry: Telemetry): RequestEnd =>
  ({ record, exchange: { trace, scope } }) => {
    if (trace !== null) telemetry.recordSpans(record, trace, scope)
  }

const logRouting =
  ({ log }: EndParts['ports']): RequestEnd =>
  ({ record, exchange, parsed }) => {
    if (record.engine === null) return
    for (const engine of [record.prefillEngine, record.engine])
      if (engine !== null) log.info(productionStackLine(parsed, exchange, engine))
  }

const logEnd =
  (ports: EndParts['ports']): RequestEnd =>
  ({ record, parsed: { incoming } }) => {
    if (logsRequests(ports.log)) addRecordFields(incoming.logFields, record)
    // The request log writes the line of a request without an engine.
    if (record.engine === null) return
    logRequest(incoming, ports, record.status, { reason: record.result === 'abandoned' ? 'draining' : undefined })
  }
