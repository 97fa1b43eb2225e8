/** Consumers of a request that has ended: each reads its record. */
import type { Config } from '../config.ts'
import type { RequestRecord } from '../core/reports/request-record.ts'
import type { KeyUsage } from '../core/limits/key-usage.ts'
import type { MirrorCounts } from '../core/traffic/mirror-counts.ts'
import type { Ports } from '../ports.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { GroupHub, WorkerGroup } from './worker-group.ts'
import { addRecordFields } from './access-log-fields.ts'
import type { WeightedModels } from './weighted-models.ts'
import { type Budgets, hasTokenBudget } from './budgets.ts'
import { logRequest, logsRequests } from './access-log.ts'
import type { RequestEnd } from './inference-observer.ts'
import { productionStackLine } from './production-stack-line.ts'

interface EndParts {
  readonly config: Pick<Config, 'log'>
  readonly ports: Pick<Ports, 'log'>
  readonly telemetry: Telemetry
  readonly usage: KeyUsage
  readonly workerGroup: Pick<WorkerGroup, 'hub'> | null
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
  workerGroup,
  authenticator,
  weighted,
  mirrorCounts,
  budgets,
}: EndParts): RequestEnd {
  const steps: readonly RequestEnd[] = [
    ...(authenticator.hasLimits ? [settleLimits] : []),
    ({ inference, record }) => usage.add(inference.caller.tenant, record),
    ...(budgets === null ? [] : [chargeTokens(budgets)]),
    ...(weighted === null ? [] : [countTarget(weighted)]),
    ...(mirrorCounts === null ? [] : [countOriginal(mirrorCounts)]),
    ...(workerGroup === null || workerGroup.hub === null ? [] : [recordInHub(workerGroup.hub)]),
    ({ record, scope }) => telemetry.recordEnded(record, scope),
    ...(telemetry.traces ? [exportSpans(telemetry)] : []),
    ...(config.log.routing ? [logRouting(ports)] : []),
    logEnd(ports),
  ]
  return (exchange) => {
    for (const step of steps) step(exchange)
  }
}

const settleLimits: RequestEnd = ({ permit, scope, record: { used } }) => {
  const tokens = used ? used.promptTokens + used.outputTokens : null
  if (permit !== null) scope.background(permit.settle(tokens))
}

const chargeTokens =
  (budgets: Budgets): RequestEnd =>
  ({ source, routes, scope, inference: { caller, endpoint }, record: { engine, usage, used } }) => {
    if (!hasTokenBudget(caller) || engine === null || !endpoint.computes) return
    const known =
      used ?? (usage === null ? null : { promptTokens: usage.promptTokens, outputTokens: usage.completionTokens })
    // Of an answer that does not show how long it is, only the prompt is known.
    const tokens = known === null ? source.admission(routes[0]!).promptTokens : known.promptTokens + known.outputTokens
    if (tokens > 0) budgets.charge(caller, { tokens }, scope)
  }

/** null: unknown, or an estimate from other requests, which would blur a comparison. */
export const outputTokensOf = ({ used, usage }: RequestRecord): number | null =>
  used?.isEstimated === true ? null : (used?.outputTokens ?? usage?.completionTokens ?? null)

const countTarget =
  (weighted: WeightedModels): RequestEnd =>
  ({ inference: { chosen }, record }) => {
    if (chosen !== null) weighted.ended(chosen, record, outputTokensOf(record))
  }

const countOriginal =
  (mirrorCounts: MirrorCounts): RequestEnd =>
  (exchange) =>
    mirrorCounts.ended(exchange, exchange.record, outputTokensOf(exchange.record))

const recordInHub =
  (hub: GroupHub): RequestEnd =>
  ({ inference: { model, caller }, record, scope }) =>
    hub.ended({ model, tenant: caller.tenant, record }, scope)

const exportSpans =
  (telemetry: Telemetry): RequestEnd =>
  ({ record, trace, scope }) => {
    if (trace !== null) telemetry.recordSpans(record, trace, scope)
  }

const logRouting =
  ({ log }: EndParts['ports']): RequestEnd =>
  (exchange) => {
    const { record, inference } = exchange
    if (record.engine === null) return
    for (const engine of [record.prefillEngine, record.engine])
      if (engine !== null) log.info(productionStackLine(inference, exchange, engine))
  }

const logEnd =
  (ports: EndParts['ports']): RequestEnd =>
  ({ record, inference: { incoming } }) => {
    if (logsRequests(ports.log)) addRecordFields(incoming.logFields, record)
    // The request log writes the line of a request without an engine.
    if (record.engine === null) return
    logRequest(incoming, ports, record.status, { reason: record.result === 'abandoned' ? 'draining' : undefined })
  }
