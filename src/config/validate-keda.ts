/** Rules of the external scaler: it needs a gRPC server, a port of its own, and a pool with an objective. */
import type { Config } from '../config.ts'
import type { Finding } from './finding.ts'
import { isSamePort } from './listen-conflicts.ts'

/** @param listens this runtime opens `listen` itself */
export function checkKeda(findings: Finding[], { keda, epp, listen, clusters }: Config, listens: boolean): void {
  if (keda === null) return
  if (!listens) {
    findings.push({
      path: ['keda'],
      rule:
        'needs `firstlight serve` on Node: leave it out, because a Worker cannot serve gRPC (no trailers). KEDA can ' +
        'read firstlight_pool_replicas_needed from Prometheus',
    })
    return
  }
  const others = [listen, epp?.listen, epp?.health].filter((one) => one !== undefined && one !== null)
  if (others.some((other) => isSamePort(keda.listen, other)))
    findings.push({ path: ['keda', 'listen'], rule: 'must differ from `listen`, `epp.listen` and `epp.health`' })
  if (!clusters.some(({ pools }) => pools.some(({ slo }) => slo !== null)))
    findings.push({ path: ['keda'], rule: 'needs a pool with `slo`, whose capacity it reports' })
}
