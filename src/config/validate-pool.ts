/** Rules for one pool. */
import type { PoolSettings } from '../config.ts'
import type { Finding } from './finding.ts'
import { LMCACHE_SERVICES, lmcacheServices } from './lmcache-services.ts'
import type { Path } from './path.ts'
import { didYouMean } from './suggest.ts'
import { checkEngine, checkHeaders, checkProvider } from './validate-engine.ts'
import { checkSplit } from './validate-split.ts'
import { checkRanks } from './ranks.ts'
import { isProvider } from './is-provider.ts'

export function checkPool(findings: Finding[], pool: PoolSettings, at: Path): void {
  const roles = new Set(pool.engines.filter((engine) => !isProvider(engine)).map(({ role }) => role))
  const hasOnlyProviders = pool.engines.length > 0 && roles.size === 0
  if (!hasOnlyProviders && !roles.has('any') && !roles.has('decode')) {
    findings.push({
      path: [...at, 'engines'],
      rule: 'must have one engine with role any or decode: no other engine can answer a request',
    })
  }
  const own = [pool.model, ...pool.adapters]
  for (const [index, engine] of pool.engines.entries()) {
    for (const [entry, model] of (engine.models ?? []).entries()) {
      if (own.includes(model)) continue
      const hint = pool.aliases.includes(model)
        ? '; aliases are for clients: use the name of the model'
        : didYouMean(model, own)
      findings.push({
        path: [...at, 'engines', index, 'models', entry],
        rule: `is neither the pool's model nor one of its adapters${hint}`,
      })
    }
    checkEngine(findings, engine, [...at, 'engines', index])
    checkProvider(findings, engine, [...at, 'engines', index])
    checkRanks(findings, engine, [...at, 'engines', index])
    if (engine.dataParallel !== 'off' && usesLmcache(pool))
      findings.push({
        path: [...at, 'engines', index, 'data_parallel'],
        rule: 'must be off with LMCache: its instances are not assigned to ranks',
      })
  }
  checkShards(findings, pool, [...at, 'shards'])
  checkSleep(findings, pool, at)
  checkLmcache(findings, pool, at)
  checkSplit(findings, pool, [...at, 'split'])
}

const usesLmcache = ({ lmcache, split }: PoolSettings): boolean => lmcache !== null || split.connector === 'lmcache'

function checkSleep(findings: Finding[], { wake, sleep, queue }: PoolSettings, at: Path): void {
  if (wake === 'on_demand' && (queue?.noEngineWaitMs ?? 0) === 0)
    findings.push({ path: [...at, 'wake'], rule: 'needs queue.no_engine_wait_ms: requests wait while an engine wakes' })
  if (sleep !== null && wake !== 'on_demand')
    findings.push({ path: [...at, 'sleep'], rule: 'needs wake: on_demand, or nothing wakes the engines again' })
}

function checkShards(findings: Finding[], { shards, engines, lmcache }: PoolSettings, path: Path): void {
  if (shards > engines.length)
    findings.push({ path, rule: `must be at most ${engines.length}, the number of engines: each object has its own` })
  if (shards > 1 && lmcache?.registry === true)
    findings.push({ path, rule: 'must be 1 with `lmcache.registry`: LMCache servers report to one object' })
}

function checkLmcache(findings: Finding[], { lmcache, engines }: PoolSettings, at: Path): void {
  if (lmcache === null) return
  const sources = lmcacheServices(lmcache).length + (lmcache.registry ? 1 : 0)
  if (sources !== 1)
    findings.push({
      path: [...at, 'lmcache'],
      rule: `must have exactly one of ${LMCACHE_SERVICES.join(', ')} and registry: true`,
    })
  checkHeaders(findings, lmcache.headers, [...at, 'lmcache'])
  // Instances are identified by host, so engines that share one must name theirs.
  const hosts = engines.map(({ url }) => new URL(url).hostname)
  for (const [index, { lmcacheInstance: instance }] of engines.entries()) {
    const host = hosts[index]!
    if (instance !== null || hosts.indexOf(host) === hosts.lastIndexOf(host)) continue
    findings.push({
      path: [...at, 'engines', index, 'lmcache_instance'],
      rule: `is required: another engine has the host ${host} too`,
    })
  }
}
