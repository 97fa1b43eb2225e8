/** Rules across keys: duplicate names, contradictory lists, missing keys on a public port. */
import type { ClusterConfig, Config, ConfigDocument, PoolDocument, PoolSettings, RegionalGateway } from '../config.ts'
import { hostPort } from '../url.ts'
import { checkDuplicates, type NamedPath } from './duplicates.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'
import { checkOverlaps, type EngineWithPath } from './ranks.ts'
import { isServerUrl, isWebhookUrl } from './url-fields.ts'
import { checkAliases } from './validate-aliases.ts'
import { checkEngineTls, checkEngine, checkHeaders } from './validate-engine.ts'
import { checkEpp } from './validate-epp.ts'
import { checkKeda } from './validate-keda.ts'
import { checkKeys } from './validate-keys.ts'
import { checkMirrors } from './validate-mirrors.ts'
import { checkPool } from './validate-pool.ts'
import { checkRegions } from './validate-regions.ts'
import { checkWeightedModels } from './validate-weighted-models.ts'
import { checkTemplate, templatesIn } from './validate-template.ts'

/** Returns all violations across keys of a valid document. `listens`: this runtime opens `listen` itself. */
export function crossCheck(document: Config, listens: boolean): Finding[] {
  const findings: Finding[] = []
  checkDuplicates(
    findings,
    document.clusters.map((one, index) => [one.id, ['clusters', index, 'id']]),
  )
  for (const [index, cluster] of document.clusters.entries()) checkCluster(findings, cluster, ['clusters', index])
  checkAliases(findings, document)
  checkWeightedModels(findings, document)
  checkMirrors(findings, document)
  checkLimits(findings, document)
  checkKeys(findings, document, listens)
  checkRegions(findings, document)
  checkHeaders(findings, document.traces.headers, ['traces'])
  for (const { engine, at } of templatesIn(document)) checkTemplate(findings, engine, at, listens)
  for (const [cluster, { pools }] of document.clusters.entries())
    for (const [pool, { engines }] of pools.entries())
      for (const [index, engine] of engines.entries())
        checkEngineTls(findings, engine, { at: ['clusters', cluster, 'pools', pool, 'engines', index], listens })
  if (!listens && document.record !== null)
    findings.push({ path: ['record'], rule: 'needs `firstlight serve` on Node: leave it out' })
  checkExports(findings, document, listens)
  checkWebhook(findings, document)
  if (!listens && document.tls !== null)
    findings.push({
      path: ['tls'],
      rule: 'needs `firstlight serve` on Node: leave it out, Cloudflare or the embedding server ends TLS',
    })
  checkReplicas(findings, document, listens)
  checkEpp(findings, document, listens)
  checkKeda(findings, document, listens)
  return findings
}

/** Checks that a cluster has pools or a gateway. The part of a document with both has one of them. */
export function checkClusterForms({ clusters }: ConfigDocument): Finding[] {
  return clusters.flatMap(({ pools, gateway, settings }, index): Finding[] => [
    ...(pools === null && gateway === null
      ? [{ path: ['clusters', index], rule: 'must have either `pools` of engines or a `gateway`' }]
      : []),
    ...(settings === null
      ? []
      : [{ path: ['clusters', index, 'settings'], rule: 'belongs to a cluster with `pools` and a `gateway`' }]),
  ])
}

function checkExports(findings: Finding[], { log, metrics }: Config, listens: boolean): void {
  for (const [section, { otlp }] of Object.entries({ log, metrics })) {
    if (otlp === null) continue
    if (listens) checkHeaders(findings, otlp.headers, [section, 'otlp'])
    else findings.push({ path: [section, 'otlp'], rule: `needs \`firstlight serve\` on Node: ${ON_WORKERS[section]}` })
  }
}

/** What replaces an export there. */
const ON_WORKERS: Readonly<Record<string, string>> = {
  log: 'leave it out, Cloudflare exports the logs of Workers',
  metrics: 'leave it out, and let the collector read `/metrics`',
}

function checkLimits(findings: Finding[], { limits }: Config): void {
  const { bodyBytes, bufferedBytes } = limits
  if (bufferedBytes >= bodyBytes) return
  findings.push({
    path: ['limits', 'buffered_bytes'],
    rule: `must be at least limits.body_bytes, ${bodyBytes}: a body of that size would always be refused`,
  })
}

function checkWebhook(findings: Finding[], { alerts: { webhook } }: Config): void {
  if (webhook === null || isWebhookUrl(webhook.url)) return
  const rule = 'must be a URL like https://alerts.example.com/firstlight, without a user or password'
  findings.push({ path: ['alerts', 'webhook', 'url'], rule })
}

function checkReplicas(findings: Finding[], { replicas }: Config, listens: boolean): void {
  if (replicas === null) return
  if (!listens) findings.push({ path: ['replicas'], rule: 'needs `firstlight serve` on Node: leave it out' })
  else if (!isServerUrl(replicas.url))
    findings.push({ path: ['replicas'], rule: 'must have a `url` like redis://10.0.0.1:6379 or rediss://valkey' })
}

function checkCluster(findings: Finding[], cluster: ClusterConfig, at: Path): void {
  if (cluster.gateway !== null) return checkGateway(findings, cluster.gateway, [...at, 'gateway'])
  const names: NamedPath[] = []
  const engineIds: NamedPath[] = []
  const servers: NamedPath[] = []
  const engines: EngineWithPath[] = []
  for (const [index, pool] of cluster.pools.entries()) {
    const path = [...at, 'pools', index]
    names.push(...namesWithPaths(pool, path))
    for (const [entry, engine] of pool.engines.entries()) {
      const enginePath = [...path, 'engines', entry]
      engineIds.push([engine.id, [...enginePath, 'id']])
      engines.push([engine, enginePath])
      // Several templates may select different pods.
      if (engine.kubernetes === null) servers.push([hostPort(engine, engine.binding), [...enginePath, 'url']])
    }
    checkPool(findings, pool, path)
  }
  checkDuplicates(findings, names)
  checkDuplicates(findings, engineIds)
  // Two ids for one server would book its work twice. Headers distinguish data-parallel ranks behind one address.
  checkDuplicates(findings, servers)
  checkOverlaps(findings, engines)
}

function checkGateway(findings: Finding[], gateway: RegionalGateway, at: Path): void {
  const models = gateway.models.map((one, index) => [one, [...at, 'models', index]] as const)
  checkDuplicates(
    findings,
    models.flatMap(([one, path]) => namesWithPaths(one, path)),
  )
  checkEngine(findings, gateway, at)
}

/** Names of a pool with their paths. */
function namesWithPaths(
  { model, ...lists }: Pick<PoolDocument, 'model' | 'aliases'> & Pick<PoolSettings, 'adapters'>,
  path: Path,
): NamedPath[] {
  const others = (['aliases', 'adapters'] as const).flatMap((list) =>
    lists[list].map((name, entry): NamedPath => [name, [...path, list, entry]]),
  )
  return [[model, [...path, 'model']], ...others]
}
